// SPDX-License-Identifier: Apache-2.0
// dsec fs stats, inflight, evict and info: questions with one answer.
#include "base/paths.h"
#include "base/text.h"
#include "cli/fs_figures.h"
#include "cli/fs_locate.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "control/client.h"

namespace dsec::cli {

using control::Client;

namespace {

Result<Client> running(const CommonArgs& args) {
  return Client::connect(default_store(args.store), Client::Start::never);
}

using Rows = std::vector<std::vector<std::string>>;

Rows request_rows(const Json& requests) {
  Rows rows{{"REQUEST", "COUNT", "EIO", "P50", "P90", "P99"}};
  for (const auto& [operation, one] : requests.items()) {
    if (count_of(one, "count") == 0) continue;
    rows.push_back({operation, std::to_string(count_of(one, "count")), std::to_string(count_of(one, "eio")),
                    short_time(count_of(one, "p50_us")), short_time(count_of(one, "p90_us")),
                    short_time(count_of(one, "p99_us"))});
  }
  return rows;
}

Rows chunk_rows(const Json& chunks) {
  Rows rows{{"CHUNKS FROM", "COUNT", "BYTES"}};
  for (const char* origin : {"memory", "disk", "store"}) {
    rows.push_back({origin, std::to_string(count_of(part_of(chunks, origin), "chunks")),
                    human_size(count_of(part_of(chunks, origin), "bytes"))});
  }
  return rows;
}

Rows fetch_rows(const Json& packs) {
  Rows rows{{"FETCHED BY", "FROM DISK", "FROM STORE", "RANGES NOT ON DISK", "FAILED"}};
  for (const char* urgency : {"demand", "prefetch"}) {
    const Json& one = part_of(packs, urgency);
    rows.push_back(
        {urgency, human_size(count_of(part_of(one, "disk"), "bytes")),
         human_size(count_of(part_of(one, "disk"), "store_bytes") + count_of(part_of(one, "store"), "store_bytes")),
         std::to_string(count_of(part_of(one, "store"), "reads")), std::to_string(count_of(one, "failures"))});
  }
  return rows;
}

Rows env_rows(const Json& envs) {
  Rows rows{{"ENV", "READS", "READ", "FROM MEMORY", "FROM DISK", "FROM STORE", "FETCHED", "AMPLIFICATION", "LAYERS"}};
  for (const Json& env : envs) {
    const Json& bytes = part_of(env, "chunk_bytes");
    const auto shared = count_of(env, "shared_layers");
    rows.push_back(
        {short_digest(env), std::to_string(count_of(env, "reads")), human_size(count_of(env, "read_bytes")),
         human_size(count_of(bytes, "memory")), human_size(count_of(bytes, "disk")),
         human_size(count_of(bytes, "store")), human_size(count_of(env, "store_bytes")),
         ratio_text(part_of(env, "amplification")),
         fmt::format("{}{}", count_of(env, "layers"), shared > 0 ? fmt::format(" ({} shared)", shared) : "")});
  }
  return rows;
}

std::string describe_caches(const Json& stats) {
  const Json& memory = part_of(stats, "memory_cache");
  const Json& disk = part_of(stats, "node_cache");
  std::string text = fmt::format("memory cache: {} of {}\n", human_size(count_of(memory, "used_bytes")),
                                 human_size(count_of(memory, "capacity_bytes")));
  if (!disk.value("used", false)) return text + fmt::format("node cache: not used, {}\n", disk.value("reason", ""));
  text += fmt::format("node cache: {} of {}, {} evicted, {} merged waits, {} windows dropped as damaged\n",
                      human_size(count_of(disk, "used_bytes")), human_size(count_of(disk, "quota_bytes")),
                      human_size(count_of(disk, "evicted_bytes")), count_of(disk, "merged_waits"),
                      count_of(disk, "dropped_corrupt"));
  return text + node_cache_warning(disk);
}

std::string describe_merged_images(const Json& merged) {
  return fmt::format("merged images: {} ({} of {}), {} being made, {} made, {} failed\n", count_of(merged, "images"),
                     human_size(count_of(merged, "bytes")), human_size(count_of(merged, "quota_bytes")),
                     count_of(merged, "waiting"), count_of(merged, "built"), count_of(merged, "failed"));
}

Result<void> print_stats(const Json& stats) {
  const Json& chunks = part_of(stats, "chunks");
  const Json& fetched = part_of(stats, "store_bytes");
  TRY(print(fmt::format("lazyfsd {} serves {} as process {}, for {}; {} requests in flight\n\n",
                        stats.value("version", ""), stats.value("store", ""), stats.value("pid", 0),
                        short_time(static_cast<std::uint64_t>(stats.value("uptime_seconds", 0.0) * 1e6)),
                        count_of(stats, "in_flight"))));
  TRY(print(format_table(request_rows(part_of(stats, "requests"))) + "\n"));
  TRY(print(format_table(chunk_rows(chunks)) + "\n"));
  TRY(print(format_table(fetch_rows(part_of(stats, "packs"))) + "\n"));
  TRY(print(fmt::format(
      "amplification: {} ({} from the store, {} in different chunks that readers needed)\n"
      "{} merged waits, {} retries, {} timeouts, {} wrong bytes, {} corrupt chunks, {} answers at the deadline\n",
      ratio_text(part_of(stats, "amplification")),
      human_size(count_of(fetched, "demand") + count_of(fetched, "prefetch")),
      human_size(count_of(chunks, "touched_bytes")), count_of(chunks, "merged_waits"), count_of(chunks, "retries"),
      count_of(chunks, "timeouts"), count_of(chunks, "wrong_bytes"), count_of(chunks, "corrupt"),
      count_of(stats, "deadline_answers"))));
  TRY(print(describe_caches(stats) + describe_merged_images(part_of(stats, "merged_images")) + "\n"));
  return print(format_table(env_rows(part_of(stats, "envs"))));
}

}  // namespace

Result<int> fs_stats_verb(const EnvArgs& args) {
  Client client = TRY(running(args.common));
  const Json stats = TRY(client.ask({{"op", "stats"}, {"env", TRY(env_digest(args.common, args.env))}}));
  TRY(args.common.json ? print_json(stats) : print_stats(stats));
  return kExitOk;
}

Result<int> fs_inflight_verb(const CommonArgs& args) {
  Client client = TRY(running(args));
  const Json answer = TRY(client.ask({{"op", "inflight"}}));
  if (args.json) {
    TRY(print_json(answer));
    return kExitOk;
  }
  Rows rows{{"REQUEST", "AGE", "WAITS FOR", "OFFSET", "LENGTH", "LAYER", "PATH"}};
  for (const Json& one : part_of(answer, "requests")) {
    const std::string layer =
        part_of(one, "layer").is_string() ? part_of(one, "layer").get<std::string>().substr(0, 12) : "-";
    const bool overdue = one.value("overdue", false);
    rows.push_back({one.value("operation", ""), short_time(count_of(one, "age_ms") * 1000),
                    overdue ? "nothing: answered EIO" : one.value("waits_for", ""),
                    std::to_string(count_of(one, "offset")), std::to_string(count_of(one, "length")), layer,
                    escaped(one.value("path", ""))});
  }
  TRY(print(format_table(rows)));
  return kExitOk;
}

Result<int> fs_evict_verb(const EvictArgs& args) {
  Client client = TRY(running(args.common));
  Json request = {{"op", "evict"}, {"env", TRY(env_digest(args.common, args.env))}, {"memory", args.all}};
  if (!args.bytes.empty()) request["bytes"] = TRY_IN("--bytes", parse_some_bytes(args.bytes));
  const Json answer = TRY(client.ask(request));
  if (args.common.json) {
    TRY(print_json(answer));
    return kExitOk;
  }
  const bool has_cache = answer.value("node_cache_used", false);
  const std::string disk = has_cache ? human_size(count_of(answer, "node_cache_bytes")) + " from the node cache"
                                     : std::string("there is no node cache");
  TRY(print(disk + (args.all ? fmt::format(", {} from memory", human_size(count_of(answer, "memory_bytes"))) : "") +
            "\n"));
  return kExitOk;
}

Result<int> fs_info_verb(const InfoArgs& args) {
  const ServedNode served = TRY(locate_served(args.path));
  Client client = TRY(Client::connect_in(served.daemon_dir));
  Json answer = TRY(client.ask({{"op", "info"}, {"node", served.node}, {"mount", served.mount}}));
  answer["served_as"] = served.path.native();
  if (args.common.json) {
    TRY(print_json(answer));
    return kExitOk;
  }
  const auto text = [&](const char* key) {
    return part_of(answer, key).is_string() ? part_of(answer, key).get<std::string>() : "-";
  };
  TRY(print(fmt::format("{}, {} bytes\ndigest  {}\nlayer   {}, as {}\nenv     {}\nserved  {}\n", text("type"),
                        count_of(answer, "size"), text("digest"), text("layer"), escaped(text("path_in_layer")),
                        text("env"), escaped(text("served_as")))));
  std::vector<std::string> where;
  for (const char* origin : {"memory", "disk", "store"}) {
    const Json& share = part_of(part_of(answer, "cached"), origin);
    if (count_of(share, "chunks") == 0) continue;
    where.push_back(fmt::format("{} in {} ({})", count_of(share, "chunks"),
                                origin == std::string_view("disk")    ? "the node cache"
                                : origin == std::string_view("store") ? "the store alone"
                                                                      : origin,
                                human_size(count_of(share, "stored_bytes"))));
  }
  TRY(print(
      fmt::format("chunks  {}{}{}\n", count_of(answer, "chunks"), where.empty() ? "" : ": ", fmt::join(where, ", "))));
  return kExitOk;
}

}  // namespace dsec::cli
