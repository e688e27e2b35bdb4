// SPDX-License-Identifier: Apache-2.0
#include "daemon/stats_document.h"

#include <unistd.h>

#include <algorithm>

#include "daemon/figures.h"

namespace dsec::daemon {

using store::Origin;
using store::Urgency;

namespace {

constexpr std::size_t kMaxEnvs = 800;              // about 700 KiB: fits a message,
constexpr std::size_t kMaxOwnerBytes = 200 << 10;  // together with these

Json describe(const LatencyHistogram::Snapshot& took) {
  return {{"count", took.count},
          {"total_us", took.total_us},
          {"p50_us", took.quantile_us(0.5)},
          {"p90_us", took.quantile_us(0.9)},
          {"p99_us", took.quantile_us(0.99)},
          {"buckets", took.buckets}};
}

Json describe(const RequestFigures& figures) {
  Json all = Json::object();
  for (std::size_t i = 0; i < fuse::kOperations; ++i) {
    Json one = describe(figures.operations[i].took);
    one["eio"] = figures.operations[i].eio;
    all[fuse::to_string(static_cast<fuse::Operation>(i))] = std::move(one);
  }
  return all;
}

Json describe_chunks(const ChunkStack& stack) {
  const store::OriginMeter& meter = *stack.origin_meter;
  Json all = Json::object();
  for (std::size_t i = 0; i < store::kOrigins; ++i) {
    all[store::to_string(static_cast<Origin>(i))] = {{"chunks", meter.shares[i].chunks.get()},
                                                     {"bytes", meter.shares[i].bytes.get()}};
  }
  all["touched_chunks"] = meter.touched_chunks.get();
  all["touched_bytes"] = meter.touched_bytes.get();
  all["failures"] = meter.failures.get();
  all["timeouts"] = meter.timeouts.get();
  all["merged_waits"] = stack.fetch_meter->merged_waits.get();
  all["retries"] = stack.fetch_meter->retries.get();
  all["wrong_bytes"] = stack.fetch_meter->wrong_bytes.get();
  all["corrupt"] = stack.fetch_meter->corrupt.get();
  return all;
}

Json describe_packs(const store::PackMeter& meter) {
  Json all = Json::object();
  for (const Urgency urgency : {Urgency::demand, Urgency::prefetch}) {
    Json one = {{"failures", meter.failures[static_cast<std::size_t>(urgency)].get()}};
    for (const Origin origin : {Origin::cache, Origin::store}) {
      const store::PackMeter::Share& share = meter.of(urgency, origin);
      one[store::to_string(origin)] = {
          {"reads", share.reads.get()}, {"bytes", share.bytes.get()}, {"store_bytes", share.store_bytes.get()}};
    }
    all[urgency == Urgency::demand ? "demand" : "prefetch"] = std::move(one);
  }
  for (const Origin origin : {Origin::cache, Origin::store}) {
    all["took"][store::to_string(origin)] = describe(meter.took[static_cast<std::size_t>(origin)].snapshot());
  }
  return all;
}

// Null when nothing was needed yet.
Json ratio(std::uint64_t fetched, std::uint64_t touched) {
  return touched == 0 ? Json() : Json(static_cast<double>(fetched) / static_cast<double>(touched));
}

// As many as there is room for.
Json take_owners(const std::vector<std::string>& owners, std::size_t& room) {
  Json taken = Json::array();
  for (const std::string& owner : owners) {
    const std::size_t bytes = owner.size() + 3;  // quotes, comma
    if (bytes > room) break;
    room -= bytes;
    taken.push_back(owner);
  }
  return taken;
}

Json describe(const EnvFigures& env, std::size_t& room) {
  Json chunk_bytes = Json::object();
  for (std::size_t i = 0; i < store::kOrigins; ++i) {
    chunk_bytes[store::to_string(static_cast<Origin>(i))] = env.chunk_bytes[i];
  }
  return {{"env", env.env.hex()},
          {"paths", env.paths},
          {"owners", take_owners(env.owners, room)},
          {"owner_count", env.owners.size()},
          {"layers", env.layers},
          {"shared_layers", env.shared_layers},
          {"reads", env.reads},
          {"read_bytes", env.read_bytes},
          {"store_bytes", env.store_bytes},
          {"chunk_bytes", std::move(chunk_bytes)},
          {"touched_bytes", env.touched_bytes},
          {"amplification", ratio(env.store_bytes, env.touched_bytes)}};
}

}  // namespace

Result<Json> stats_document(const Sight& sight, const std::optional<Digest>& env) {
  Json envs = Json::array();
  std::size_t left_out = 0;
  std::size_t room = kMaxOwnerBytes;
  auto all = env_figures(sight);
  std::stable_partition(all.begin(), all.end(), [](const EnvFigures& figures) { return !figures.owners.empty(); });
  for (const EnvFigures& figures : all) {
    if (env && figures.env != *env) continue;
    if (envs.size() < kMaxEnvs) {
      envs.push_back(describe(figures, room));
    } else {
      ++left_out;
    }
  }
  if (env && envs.empty()) return fail(ErrorCode::not_found, "environment {} is not attached", env->hex());
  const RequestFigures requests = request_figures(sight);
  const StoreFigures fetched = store_figures(*sight.chunks->pack_meter);
  const std::uint64_t touched = sight.chunks->origin_meter->touched_bytes.get();
  const auto uptime = std::chrono::system_clock::now() - sight.started;
  Json document = describe(*sight.chunks);  // io_engine, node_cache, store_bytes, hf3fs
  document["pid"] = ::getpid();
  document["version"] = DSEC_VERSION;
  document["store"] = sight.store;
  document["uptime_seconds"] = std::chrono::duration<double>(uptime).count();
  document["requests"] = describe(requests);
  document["deadline_answers"] = requests.overdue;
  document["tracing"] = sight.tap->is_on();
  document["in_flight"] = requests.in_flight;
  document["chunks"] = describe_chunks(*sight.chunks);
  document["packs"] = describe_packs(*sight.chunks->pack_meter);
  document["amplification"] = ratio(fetched.demand_bytes + fetched.prefetch_bytes, touched);
  document["memory_cache"] = {{"used_bytes", sight.chunks->memory->used_bytes()},
                              {"capacity_bytes", sight.chunks->memory_bytes}};
  document["merged_images"] = describe(sight.merged);
  document["envs"] = std::move(envs);
  document["envs_left_out"] = left_out;
  return document;
}

}  // namespace dsec::daemon
