// SPDX-License-Identifier: Apache-2.0
// dsec fs top and trace: until Ctrl-C.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>

#include "base/metrics.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/fs_figures.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "control/client.h"

namespace dsec::cli {

using control::Client;

namespace {

constexpr std::chrono::milliseconds kRefresh{1000};

volatile sig_atomic_t interrupted = 0;

// Ctrl-C ends what is shown, not the process in the middle of a line.
void stop_at_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

LatencyHistogram::Snapshot histogram_of(const Json& took) {
  LatencyHistogram::Snapshot snapshot;
  const auto buckets = took.is_object() ? took.value("buckets", Json::array()) : Json::array();
  for (std::size_t i = 0; i < buckets.size() && i < LatencyHistogram::kBuckets; ++i) {
    snapshot.buckets[i] = buckets[i].get<std::uint64_t>();
    snapshot.count += snapshot.buckets[i];
  }
  return snapshot;
}

LatencyHistogram::Snapshot difference(LatencyHistogram::Snapshot now, const LatencyHistogram::Snapshot& before) {
  now.count = 0;
  for (std::size_t i = 0; i < LatencyHistogram::kBuckets; ++i) {
    now.buckets[i] -= std::min(now.buckets[i], before.buckets[i]);  // another lazyfsd may have taken over
    now.count += now.buckets[i];
  }
  return now;
}

double rate(std::uint64_t now, std::uint64_t before, double seconds) {
  return static_cast<double>(now - std::min(now, before)) / seconds;
}

// What happened between two documents, for each second.
struct Rates {
  double requests = 0;
  std::array<double, 3> bytes{};  // memory, disk, store
  [[nodiscard]] Json hit_share() const {
    const double all = bytes[0] + bytes[1] + bytes[2];
    return all > 0 ? Json((bytes[0] + bytes[1]) / all) : Json();
  }
};
constexpr std::array kOrigins{"memory", "disk", "store"};

Json describe(const Rates& rates) {
  return {{"requests_per_second", rates.requests},
          {"memory_bytes_per_second", rates.bytes[0]},
          {"disk_bytes_per_second", rates.bytes[1]},
          {"store_bytes_per_second", rates.bytes[2]},
          {"hit_share", rates.hit_share()}};
}

Rates total_rates(const Json& now, const Json& before, double seconds) {
  Rates rates;
  for (const auto& [operation, one] : part_of(now, "requests").items()) {
    rates.requests +=
        rate(count_of(one, "count"), count_of(part_of(part_of(before, "requests"), operation), "count"), seconds);
  }
  for (std::size_t i = 0; i < kOrigins.size(); ++i) {
    rates.bytes[i] = rate(count_of(part_of(part_of(now, "chunks"), kOrigins[i]), "bytes"),
                          count_of(part_of(part_of(before, "chunks"), kOrigins[i]), "bytes"), seconds);
  }
  return rates;
}

Rates env_rates(const Json& now, const Json& before, double seconds) {
  Rates rates;
  rates.requests = rate(count_of(now, "reads"), count_of(before, "reads"), seconds);
  for (std::size_t i = 0; i < kOrigins.size(); ++i) {
    const Json old = before.is_object() ? before.value("chunk_bytes", Json::object()) : Json::object();
    rates.bytes[i] = rate(count_of(part_of(now, "chunk_bytes"), kOrigins[i]), count_of(old, kOrigins[i]), seconds);
  }
  return rates;
}

Json env_in(const Json& stats, const std::string& digest) {
  for (const Json& env : part_of(stats, "envs")) {
    if (env.value("env", "") == digest) return env;
  }
  return {};
}

// {"seconds", "total": {rates, p50_us, p99_us, in_flight}, "envs": [{"env", rates}]}
Json compare(Json now, Json before, double seconds) {
  Json total = describe(total_rates(now, before, seconds));
  const auto read = difference(histogram_of(part_of(part_of(now, "requests"), "read")),
                               histogram_of(part_of(part_of(before, "requests"), "read")));
  total["read_p50_us"] = read.quantile_us(0.5);
  total["read_p99_us"] = read.quantile_us(0.99);
  total["in_flight"] = count_of(now, "in_flight");
  Json envs = Json::array();
  for (const Json& env : part_of(now, "envs")) {
    const std::string digest = env.value("env", "");
    Json one = describe(env_rates(env, env_in(before, digest), seconds));
    one["env"] = digest;
    envs.push_back(std::move(one));
  }
  return {{"seconds", seconds}, {"total", std::move(total)}, {"envs", std::move(envs)}};
}

std::string bytes_text(const Json& rates, const char* key) { return human_size(count_of(rates, key)) + "/s"; }

// Nothing was read: "-".
std::string quantile_text(const Json& rates, const char* key) {
  const std::uint64_t us = count_of(rates, key);
  return us == 0 ? "-" : short_time(us);
}

std::vector<std::string> row_of(const std::string& name, const Json& rates) {
  const Json& hit = part_of(rates, "hit_share");
  return {name,
          fmt::format("{:.0f}", part_of(rates, "requests_per_second").get<double>()),
          bytes_text(rates, "memory_bytes_per_second"),
          bytes_text(rates, "disk_bytes_per_second"),
          bytes_text(rates, "store_bytes_per_second"),
          hit.is_number() ? fmt::format("{:.0f}%", hit.get<double>() * 100) : "-",
          quantile_text(rates, "read_p50_us"),
          quantile_text(rates, "read_p99_us"),
          rates.contains("in_flight") ? std::to_string(count_of(rates, "in_flight")) : "-"};
}

std::string screen(const Json& compared) {
  std::vector<std::vector<std::string>> rows{
      {"ENV", "REQUESTS/S", "MEMORY", "DISK", "STORE", "HITS", "READ P50", "READ P99", "IN FLIGHT"}};
  rows.push_back(row_of("all", part_of(compared, "total")));
  for (const Json& env : part_of(compared, "envs")) rows.push_back(row_of(short_digest(env), env));
  return format_table(rows);
}

// A clock of the wall, to the millisecond.
std::string clock_text(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  struct tm parts {};
  ::localtime_r(&whole, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
  const auto ms = static_cast<int>((seconds - static_cast<double>(whole)) * 1000);
  return fmt::format("{}.{:03}", text.data(), ms);
}

std::string event_line(const Json& event) {
  std::string line = fmt::format("{} {:<11} {:>8}", clock_text(event.value("time", 0.0)), event.value("operation", ""),
                                 short_time(count_of(event, "took_us")));
  std::string path = escaped(event.value("path", ""));
  if (path.empty()) path = fmt::format("node {}", count_of(event, "node"));
  line += " " + path;
  if (event.contains("name")) line += fmt::format(" \"{}\"", escaped(event.value("name", "")));
  if (event.contains("offset")) line += fmt::format(" {}+{}", count_of(event, "offset"), count_of(event, "length"));
  for (const auto& [origin, chunks] : part_of(event, "chunks").items())
    line += fmt::format(" {}={}", origin, chunks.dump());
  if (count_of(event, "store_bytes") > 0) line += fmt::format(" fetched={}", count_of(event, "store_bytes"));
  if (part_of(event, "error").is_string()) line += " " + part_of(event, "error").get<std::string>();
  return line + "\n";
}

Result<void> print_events(const Json& answer, bool json) {
  std::string text;
  for (const Json& event : part_of(answer, "events")) text += json ? dump_json(event) + "\n" : event_line(event);
  const std::uint64_t dropped = count_of(answer, "dropped");
  if (dropped > 0) {
    text += json ? dump_json({{"dropped", dropped}}) + "\n"
                 : fmt::format("({} requests are not shown: they came too fast)\n", dropped);
  }
  return text.empty() ? Result<void>() : print(text);
}

}  // namespace

Result<int> fs_top_verb(const TopArgs& args) {
  using Clock = std::chrono::steady_clock;
  Client client = TRY(Client::connect(default_store(args.common.store), Client::Start::never));
  stop_at_interrupt();
  const bool redraws = ::isatty(STDOUT_FILENO) == 1 && !args.common.json;
  Json before = TRY(client.ask({{"op", "stats"}}));
  Clock::time_point then = Clock::now();
  for (std::uint64_t i = 0; args.iterations == 0 || i < args.iterations; ++i) {
    ::poll(nullptr, 0, static_cast<int>(kRefresh.count()));
    if (interrupted != 0) break;
    auto now = client.ask({{"op", "stats"}});
    if (!now && interrupted != 0) break;
    const Json stats = TRY(std::move(now));
    const Clock::time_point at = Clock::now();
    const Json compared = compare(stats, before, std::chrono::duration<double>(at - then).count());
    TRY(print(args.common.json ? dump_json(compared) + "\n" : (redraws ? "\x1b[H\x1b[J" : "") + screen(compared)));
    before = stats;
    then = at;
  }
  return kExitOk;
}

Result<int> fs_trace_verb(const EnvArgs& args) {
  Client client = TRY(Client::connect(default_store(args.common.store), Client::Start::never));
  const Json request = {{"op", "trace"}, {"env", TRY(env_digest(args.common, args.env))}};
  stop_at_interrupt();
  while (interrupted == 0) {
    auto answer = client.ask(request);
    if (!answer && interrupted != 0) break;
    TRY(print_events(TRY(std::move(answer)), args.common.json));
  }
  return kExitOk;
}

}  // namespace dsec::cli
