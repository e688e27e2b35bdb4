// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "base/paths.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/prefetch_wait.h"
#include "cli/verbs.h"
#include "control/client.h"
#include "store/store.h"

namespace dsec::cli {

using control::Client;
using control::FetchProgress;

Result<int> prefetch_verb(const PrefetchArgs& args) {
  const auto began = std::chrono::steady_clock::now();
  const store::Store store = TRY(store::Store::open(default_store(args.common.store)));
  const Digest env = TRY(store.resolve(format::RefKind::env, args.env));
  TRY(store.read_env(env));
  Client client = TRY(Client::connect(store.root(), Client::Start::on_demand));
  const auto what = args.all ? control::Fetch::all : control::Fetch::trace;
  const FetchProgress end = TRY(fetch_ahead(client, env, what, args.common.json));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  const bool needless = end.state == FetchProgress::State::needless;
  if (args.common.json) {
    TRY(print_json({{"env", env.hex()},
                    {"state", needless ? "needless" : "done"},
                    {"reason", needless ? end.reason : ""},
                    {"bytes_planned", end.planned_bytes},
                    {"bytes_fetched", end.fetched_bytes},
                    {"seconds", seconds.count()}}));
  } else if (needless) {
    TRY(print(fmt::format("nothing to fetch: {}\n", end.reason)));
  } else {
    // Reads are of whole blocks of the cache, so more may be read than was planned.
    const std::string how = end.fetched_bytes == 0 ? std::string("nothing had to be read from the store")
                                                   : fmt::format("{} were read from the store in {:.1f} s",
                                                                 human_size(end.fetched_bytes), seconds.count());
    TRY(print(fmt::format("{} are on this node; {}\n", human_size(end.planned_bytes), how)));
  }
  return kExitOk;
}

}  // namespace dsec::cli
