// SPDX-License-Identifier: Apache-2.0
#include "daemon/chunk_stack.h"

#include <thread>

#include "base/log.h"
#include "daemon/figures.h"
#include "io/hf3fs_mount.h"
#include "store/decode_ahead.h"
#include "store/sources.h"

namespace dsec::daemon {

namespace {

using store::FileSystemKind;

constexpr std::size_t kMaxOpenPacks = 256;
constexpr std::uint64_t kMinMemoryForAhead = 16 << 20;

// A store on a network may stop answering: then io_uring lets go of reads at their deadline. On a local disk the plain
// engine has one thread switch less.
std::shared_ptr<io::ReadEngine> store_engine(EngineChoice choice, const FileSystemKind& kind, std::string& name) {
  const bool wanted = choice == EngineChoice::uring || choice == EngineChoice::hf3fs ||
                      (choice == EngineChoice::automatic && kind.where == FileSystemKind::Where::remote);
  name = "sync";
  if (!wanted) return io::make_sync_engine();
  auto uring = io::make_uring_engine({});
  if (!uring) {
    log(LogLevel::warn, "io_uring_not_used", {{"reason", uring.error().message}});
    return io::make_sync_engine();
  }
  name = "uring";
  return std::move(*uring);
}

bool wants_hf3fs(EngineChoice choice, const StorePlace& place) {
  return choice == EngineChoice::automatic ? place.is_on_hf3fs : choice == EngineChoice::hf3fs;
}

// The mount point is asked for once: 3FS may not answer when a successor wants to know it.
Result<std::unique_ptr<io::ReadEngine>> hf3fs_engine(KnownStore& known, const Settings& settings,
                                                     io::Hf3fsOptions options, std::shared_ptr<io::ReadEngine> plain) {
  const auto api = TRY(io::load_hf3fs_api(settings.hf3fs_library));
  std::string& point = known.place.hf3fs_mount;
  if (point.empty()) point = TRY(io::hf3fs_mount_point(*api, known.store.root()));
  options.mount_point = point;
  return io::make_hf3fs_engine(api, std::move(options), std::move(plain));
}

// Past the FUSE mount of 3FS, where the store is on one and the library works; `plain` answers for it otherwise.
std::shared_ptr<io::ReadEngine> past_fuse(KnownStore& known, const Settings& settings,
                                          std::shared_ptr<io::ReadEngine> plain, ChunkStack& stack) {
  io::Hf3fsOptions options;
  options.counters = std::make_shared<io::Hf3fsCounters>();
  auto engine = hf3fs_engine(known, settings, options, plain);
  if (!engine) {
    log(LogLevel::warn, "hf3fs_not_used", {{"reason", engine.error().message}, {"instead", stack.io_engine}});
    return plain;
  }
  stack.io_engine = "hf3fs";
  stack.hf3fs = options.counters;
  return std::move(*engine);
}

bool wants_node_cache(CacheChoice choice, const FileSystemKind& kind, std::string& reason) {
  if (choice != CacheChoice::automatic) {
    reason = "as the settings say";
    return choice == CacheChoice::on;
  }
  const bool is_remote = kind.where == FileSystemKind::Where::remote;
  reason = is_remote ? "the store is on " + kind.name : "the store is on a local disk";
  return is_remote;
}

std::shared_ptr<store::PackReader> pack_reader(KnownStore& known, const Settings& settings, ChunkStack& stack) {
  const FileSystemKind& kind = known.place.kind;
  auto engine = store_engine(settings.io_engine, kind, stack.io_engine);
  if (wants_hf3fs(settings.io_engine, known.place)) engine = past_fuse(known, settings, std::move(engine), stack);
  const auto ahead =
      kind.where == FileSystemKind::Where::remote ? store::ReadAheadOnDisk::no : store::ReadAheadOnDisk::yes;
  auto packs = store::pack_files(known.store, std::move(engine), kMaxOpenPacks, ahead);
  if (!wants_node_cache(settings.node_cache, kind, stack.node_cache_reason)) {
    return store::prioritized(std::move(packs), static_cast<unsigned>(settings.prefetch_threads));
  }
  store::NodeCacheOptions options;
  options.dir = settings.cache_dir / "packs" / known.store.uuid();
  options.quota_bytes = settings.cache_quota_bytes;
  options.reserve_bytes = settings.cache_reserve_bytes;
  options.fetch_first_bytes = settings.fetch_first_bytes;
  options.fetch_window_bytes = settings.fetch_window_bytes;
  options.max_prefetch = static_cast<unsigned>(settings.prefetch_threads);
  stack.node_cache = store::NodeCache::create(std::move(packs), io::make_sync_engine(), options);
  return stack.node_cache;
}

Json describe_cache(const store::NodeCacheStats& stats) {
  return {{"used_bytes", stats.used_bytes},
          {"quota_bytes", stats.quota_bytes},
          {"windows", stats.windows},
          {"trouble", stats.trouble},
          {"hits", stats.hits},
          {"misses", stats.misses},
          {"disk_bytes", stats.disk_bytes},
          {"store_bytes", stats.store_bytes},
          {"store_reads", stats.store_reads},
          {"merged_waits", stats.merged_waits},
          {"evicted_bytes", stats.evicted_bytes},
          {"dropped_corrupt", stats.dropped_corrupt},
          {"uncached_reads", stats.uncached_reads},
          {"write_failures", stats.write_failures}};
}

Json describe_hf3fs(const io::Hf3fsCounters& counters) {
  return {{"reads", counters.reads.get()},
          {"bytes", counters.bytes.get()},
          {"fallbacks", counters.fallbacks.get()},
          {"failures", counters.failures.get()},
          {"abandoned", counters.abandoned.get()},
          {"rings_opened", counters.rings_opened.get()},
          {"rings_closed", counters.rings_closed.get()}};
}

}  // namespace

ChunkStack make_chunk_stack(KnownStore& known, const Settings& settings,
                            const std::shared_ptr<store::FetchMeter>& meter) {
  ChunkStack stack;
  stack.fetch_meter = meter;
  const FileSystemKind& kind = known.place.kind;
  stack.packs = store::metered_packs(pack_reader(known, settings, stack), stack.pack_meter);
  auto source = store::pack_chunks(stack.packs);
  source = store::retry(std::move(source), {}, meter);
  source = store::verify(std::move(source), meter);
  source = store::metered(std::move(source), meter);
  source = store::merge_in_flight(std::move(source), meter);
  stack.memory = store::memory_cached(std::move(source), settings.memory_cache_bytes);
  stack.memory_bytes = settings.memory_cache_bytes;
  // With one processor, or with nowhere to put chunks, there is nothing to be won; where reads of the store are dear,
  // too much to be lost.
  const bool ahead = kind.where != FileSystemKind::Where::remote && !stack.node_cache &&
                     settings.memory_cache_bytes >= kMinMemoryForAhead && std::thread::hardware_concurrency() > 1;
  stack.source = store::metered_by_origin(
      ahead ? std::shared_ptr<store::ChunkSource>(store::decode_ahead(stack.memory, stack.packs)) : stack.memory,
      stack.origin_meter);
  return stack;
}

Json describe(const ChunkStack& stack) {
  Json cache = stack.node_cache ? describe_cache(stack.node_cache->stats()) : Json::object();
  cache["used"] = stack.node_cache != nullptr;
  cache["reason"] = stack.node_cache_reason;
  const StoreFigures fetched = store_figures(*stack.pack_meter);
  Json all{{"io_engine", stack.io_engine},
           {"node_cache", std::move(cache)},
           {"store_bytes", {{"demand", fetched.demand_bytes}, {"prefetch", fetched.prefetch_bytes}}}};
  if (stack.hf3fs) all["hf3fs"] = describe_hf3fs(*stack.hf3fs);
  return all;
}

}  // namespace dsec::daemon
