// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"
#include "base/text.h"
#include "cli/fs_figures.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "control/client.h"

namespace dsec::cli {

using control::Client;

namespace {

std::string describe_keeper(const Json& status) {
  const Json keeper = status.value("keeper", Json());
  if (!keeper.is_object()) return "no keeper: when lazyfsd dies, its readers fail\n";
  const auto restarts = keeper.value("restarts", std::uint64_t{0});
  const std::string reason = keeper.value("last_reason", "");
  const std::string last = reason.empty() ? reason : fmt::format(", the last one: {}", reason);
  if (keeper["pid"].is_null()) {
    return fmt::format("WARNING: its keeper died and could not be replaced: when lazyfsd dies, its readers fail{}\n",
                       last);
  }
  const bool has_rings = status.value("transport", "") == "io_uring";
  return fmt::format("kept by process {}, {} restarts{}\n{}", keeper["pid"].get<int>(), restarts, last,
                     has_rings ? "requests come through io_uring: when lazyfsd dies, its readers fail\n" : "");
}

std::string describe_store(const Json& status) {
  const Json check = status.value("store_check", Json::object());
  const std::string state = check.value("state", "same");
  if (state == "same") return {};
  if (state == "waiting") return "WARNING: the store does not answer\n";
  return fmt::format("WARNING: the store is {}: {}\n", state == "away" ? "away" : "not the one that is served",
                     check.value("reason", ""));
}

// As `fs stats` counts it.
std::string describe_fetched(const Json& status) {
  const Json& bytes = part_of(part_of(status, "chunks"), "store_bytes");
  const std::uint64_t demand = count_of(bytes, "demand");
  const std::uint64_t ahead = count_of(bytes, "prefetch");
  return fmt::format("{} from the store, {} of it ahead of need; {} chunks fetched for readers, {} failed",
                     human_size(demand + ahead), human_size(ahead), count_of(status, "fetches"),
                     count_of(status, "fetch_failures"));
}

}  // namespace

Result<int> fs_status_verb(const CommonArgs& args) {
  Client client = TRY(Client::connect(default_store(args.store), Client::Start::never));
  const Json status = TRY(client.status());
  if (args.json) {
    TRY(print_json(status));
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows{{"ENV", "OWNERS", "PATH"}};
  for (const Json& env : status["attached"]) {
    const std::size_t owners = env["owners"].size() + env.value("owners_left_out", std::size_t{0});
    rows.push_back(
        {env["env"].get<std::string>().substr(0, 12), std::to_string(owners), env["path"].get<std::string>()});
  }
  TRY(print(fmt::format("lazyfsd {} serves {} as process {}; {}\n", status["version"].get<std::string>(),
                        status["store"].get<std::string>(), status["pid"].get<int>(), describe_fetched(status))));
  TRY(print(describe_keeper(status)));
  TRY(print(describe_store(status)));
  TRY(print(node_cache_warning(part_of(part_of(status, "chunks"), "node_cache"))));
  if (const std::string problem = status.value("settings_problem", ""); !problem.empty()) {
    TRY(print(
        fmt::format("WARNING: it serves with settings from before, since those of now cannot be used: {}\n", problem)));
  }
  TRY(print(format_table(rows)));
  const auto left_out = status.value("attached_left_out", std::size_t{0});
  if (left_out > 0) TRY(print(fmt::format("{} more are not listed\n", left_out)));
  const std::string object_mode = status.value("object_mode", "");
  if (!object_mode.empty()) TRY(print(fmt::format("object mode: {}\n", object_mode)));
  return kExitOk;
}

Result<int> fs_upgrade_verb(const CommonArgs& args) {
  Client client = TRY(Client::connect(default_store(args.store), Client::Start::never));
  const control::Upgrade upgrade = TRY(client.upgrade());
  if (args.json) {
    TRY(print_json({{"before", upgrade.before}, {"after", upgrade.after}, {"reason", upgrade.reason}}));
  } else if (upgrade.reason.empty()) {
    TRY(print(fmt::format("lazyfsd {} took over from {}\n", upgrade.after, upgrade.before)));
  }
  if (!upgrade.reason.empty()) return fail(ErrorCode::unavailable, "{}", upgrade.reason);
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
