// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <string_view>
#include <utility>

#include "daemon/figures.h"
#include "daemon/stats_document.h"

namespace dsec::daemon {

using store::Origin;
using store::Urgency;

namespace {

constexpr std::array kUrgencyNames{"demand", "prefetch"};

// Writes one family after another. Labels are words of ours or digests: nothing in them needs escaping.
class Exposition {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = fmt::format("dsec_lazyfs_{}", name);
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
  }
  template <typename Value>
  void sample(const std::string& labels, Value value) {
    text_ += fmt::format("{}{} {}\n", name_, labels.empty() ? labels : fmt::format("{{{}}}", labels), value);
  }
  // A family of one sample.
  template <typename Value>
  void single(std::string_view name, std::string_view type, std::string_view help, Value value) {
    family(name, type, help);
    sample("", value);
  }
  void histogram(const std::string& labels, const LatencyHistogram::Snapshot& took) {
    std::uint64_t below = 0;
    for (std::size_t i = 0; i + 1 < LatencyHistogram::kBuckets; ++i) {
      below += took.buckets[i];
      text_ += fmt::format("{}_bucket{{{},le=\"{:g}\"}} {}\n", name_, labels,
                           static_cast<double>(std::uint64_t{1} << i) / 1e6, below);
    }
    text_ += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name_, labels, took.count);
    text_ += fmt::format("{}_sum{{{}}} {:.6f}\n", name_, labels, static_cast<double>(took.total_us) / 1e6);
    text_ += fmt::format("{}_count{{{}}} {}\n", name_, labels, took.count);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

void write_requests(Exposition& out, const RequestFigures& requests) {
  const auto label = [](std::size_t i) {
    return fmt::format("operation=\"{}\"", fuse::to_string(static_cast<fuse::Operation>(i)));
  };
  out.family("request_seconds", "histogram", "From a request of the kernel until its answer, by operation.");
  for (std::size_t i = 0; i < fuse::kOperations; ++i) out.histogram(label(i), requests.operations[i].took);
  out.family("request_eio_total", "counter", "Requests answered EIO.");
  for (std::size_t i = 0; i < fuse::kOperations; ++i) out.sample(label(i), requests.operations[i].eio);
  out.single("deadline_answers_total", "counter", "Requests answered EIO since their deadline passed.",
             requests.overdue);
  out.single("requests_in_flight", "gauge", "Requests that may wait for the store and have no answer yet.",
             requests.in_flight);
}

void write_chunks(Exposition& out, const ChunkStack& stack) {
  const store::OriginMeter& meter = *stack.origin_meter;
  const auto label = [](std::size_t i) {
    return fmt::format("origin=\"{}\"", store::to_string(static_cast<Origin>(i)));
  };
  out.family("chunks_total", "counter", "Chunks given to readers, by where they came from.");
  for (std::size_t i = 0; i < store::kOrigins; ++i) out.sample(label(i), meter.shares[i].chunks.get());
  out.family("chunk_bytes_total", "counter", "Decoded bytes of these chunks.");
  for (std::size_t i = 0; i < store::kOrigins; ++i) out.sample(label(i), meter.shares[i].bytes.get());
  out.single("chunk_failures_total", "counter", "Chunks that readers could not be given.", meter.failures.get());
  out.single("chunk_timeouts_total", "counter", "Of these: the deadline passed.", meter.timeouts.get());
  out.single("touched_chunks_total", "counter", "Different chunks given to readers.", meter.touched_chunks.get());
  out.single("touched_bytes_total", "counter", "Stored size of these different chunks.", meter.touched_bytes.get());
  const store::FetchMeter& fetches = *stack.fetch_meter;
  out.single("merged_waits_total", "counter", "Chunks that somebody else was fetching already.",
             fetches.merged_waits.get());
  out.single("retries_total", "counter", "Fetches made again since the store failed.", fetches.retries.get());
  out.single("wrong_bytes_total", "counter", "Fetches whose bytes did not have their digest.",
             fetches.wrong_bytes.get());
  out.single("corrupt_chunks_total", "counter", "Chunks given up for that.", fetches.corrupt.get());
}

void write_packs(Exposition& out, const store::PackMeter& meter) {
  constexpr std::array kOriginsOfPacks{Origin::cache, Origin::store};
  const auto label = [](std::size_t urgency, Origin origin) {
    return fmt::format("urgency=\"{}\",origin=\"{}\"", kUrgencyNames[urgency], store::to_string(origin));
  };
  out.family("pack_reads_total", "counter", "Ranges of packs asked for, by where all of it came from.");
  for (std::size_t u = 0; u < kUrgencyNames.size(); ++u) {
    for (const Origin o : kOriginsOfPacks) out.sample(label(u, o), meter.of(static_cast<Urgency>(u), o).reads.get());
  }
  out.family("pack_bytes_total", "counter", "Bytes of these ranges.");
  for (std::size_t u = 0; u < kUrgencyNames.size(); ++u) {
    for (const Origin o : kOriginsOfPacks) out.sample(label(u, o), meter.of(static_cast<Urgency>(u), o).bytes.get());
  }
  out.family("pack_failures_total", "counter", "Ranges that could not be read.");
  for (std::size_t u = 0; u < kUrgencyNames.size(); ++u) {
    out.sample(fmt::format("urgency=\"{}\"", kUrgencyNames[u]), meter.failures[u].get());
  }
  out.family("pack_read_seconds", "histogram", "How long demand waited for a range, by where it came from.");
  for (const Origin o : kOriginsOfPacks) {
    out.histogram(fmt::format("origin=\"{}\"", store::to_string(o)),
                  meter.took[static_cast<std::size_t>(o)].snapshot());
  }
}

void write_node_cache(Exposition& out, const store::NodeCacheStats& stats) {
  out.single("node_cache_working", "gauge", "1 while the node cache can be used.", stats.trouble.empty() ? 1 : 0);
  out.single("node_cache_used_bytes", "gauge", "Size of the node cache.", stats.used_bytes);
  out.single("node_cache_quota_bytes", "gauge", "The size it may have.", stats.quota_bytes);
  out.single("node_cache_windows", "gauge", "Windows of packs in it.", stats.windows);
  out.single("node_cache_hits_total", "counter", "Ranges served from it alone.", stats.hits);
  out.single("node_cache_misses_total", "counter", "The other ranges.", stats.misses);
  out.single("node_cache_merged_waits_total", "counter", "Blocks that another reader was fetching already.",
             stats.merged_waits);
  out.single("node_cache_evicted_bytes_total", "counter", "Bytes given up for others.", stats.evicted_bytes);
  out.single("node_cache_dropped_total", "counter", "Windows dropped since their bytes were wrong.",
             stats.dropped_corrupt);
  out.single("node_cache_uncached_reads_total", "counter", "Reads that it could not take.", stats.uncached_reads);
  out.single("node_cache_write_failures_total", "counter", "Writes to it that failed.", stats.write_failures);
}

void write_merged_images(Exposition& out, const MergedImages::Figures& figures) {
  out.single("merged_images", "gauge", "Merged images on this node.", figures.usage.images);
  out.single("merged_image_bytes", "gauge", "Their size.", figures.usage.bytes);
  out.single("merged_images_built_total", "counter", "Merged images made.", figures.built);
  out.single("merged_images_failed_total", "counter", "Merged images that could not be made or used.", figures.failed);
}

void write_envs(Exposition& out, const std::vector<EnvFigures>& envs) {
  const auto label = [](const EnvFigures& env) { return fmt::format("env=\"{}\"", env.env.hex()); };
  out.single("environments", "gauge", "Environments that are shown.", envs.size());
  out.family("env_reads_total", "counter", "Reads of an environment's files, with what others read of shared layers.");
  for (const EnvFigures& env : envs) out.sample(label(env), env.reads);
  out.family("env_read_bytes_total", "counter", "Bytes given to these readers.");
  for (const EnvFigures& env : envs) out.sample(label(env), env.read_bytes);
  out.family("env_store_bytes_total", "counter", "Bytes read from the store for them.");
  for (const EnvFigures& env : envs) out.sample(label(env), env.store_bytes);
  out.family("env_chunk_bytes_total", "counter", "Decoded bytes of chunks that they were served from, by origin.");
  for (const EnvFigures& env : envs) {
    for (std::size_t i = 0; i < store::kOrigins; ++i) {
      out.sample(fmt::format("{},origin=\"{}\"", label(env), store::to_string(static_cast<Origin>(i))),
                 env.chunk_bytes[i]);
    }
  }
}

}  // namespace

std::string exposition(const Sight& sight) {
  Exposition out;
  out.family("info", "gauge", "The program that serves.");
  out.sample(fmt::format("version=\"{}\"", DSEC_VERSION), 1);
  out.single("start_time_seconds", "gauge", "When it started, since the epoch.",
             std::chrono::duration_cast<std::chrono::seconds>(sight.started.time_since_epoch()).count());
  write_requests(out, request_figures(sight));
  write_chunks(out, *sight.chunks);
  const StoreFigures fetched = store_figures(*sight.chunks->pack_meter);
  out.family("store_bytes_total", "counter", "Bytes read from the store, for readers and ahead of them.");
  out.sample("urgency=\"demand\"", fetched.demand_bytes);
  out.sample("urgency=\"prefetch\"", fetched.prefetch_bytes);
  write_packs(out, *sight.chunks->pack_meter);
  out.single("memory_cache_used_bytes", "gauge", "Decoded chunks in memory.", sight.chunks->memory->used_bytes());
  out.single("memory_cache_capacity_bytes", "gauge", "How much may be there.", sight.chunks->memory_bytes);
  if (sight.chunks->node_cache) write_node_cache(out, sight.chunks->node_cache->stats());
  if (sight.merged != nullptr) write_merged_images(out, sight.merged->figures());
  write_envs(out, env_figures(sight));
  return out.take();
}

}  // namespace dsec::daemon
