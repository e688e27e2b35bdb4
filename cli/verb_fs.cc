// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "control/client.h"

namespace dsec::cli {

using control::Client;

Result<int> fs_status_verb(const CommonArgs& args) {
  Client client = TRY(Client::connect(default_store(args.store), Client::Start::never));
  const Json status = TRY(client.status());
  if (args.json) {
    TRY(print_json(status));
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows{{"ENV", "OWNERS", "PATH"}};
  for (const Json& env : status["attached"]) {
    rows.push_back({env["env"].get<std::string>().substr(0, 12), std::to_string(env["owners"].size()),
                    env["path"].get<std::string>()});
  }
  TRY(print(fmt::format("lazyfsd {} serves {} as process {}; {} bytes from the store in {} fetches, {} failed\n",
                        status["version"].get<std::string>(), status["store"].get<std::string>(),
                        status["pid"].get<int>(), status["store_bytes"].get<std::uint64_t>(),
                        status["fetches"].get<std::uint64_t>(), status["fetch_failures"].get<std::uint64_t>())));
  TRY(print(format_table(rows)));
  return kExitOk;
}

Result<int> fs_stop_verb(const StopArgs& args) {
  auto client = Client::connect(default_store(args.common.store), Client::Start::never);
  if (!client && client.error().code == ErrorCode::unavailable) return kExitOk;  // what was asked for is so
  Client connected = TRY(std::move(client));
  TRY(connected.stop(args.force ? Client::Force::yes : Client::Force::no));
  return kExitOk;
}

}  // namespace dsec::cli
