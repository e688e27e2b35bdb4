// SPDX-License-Identifier: Apache-2.0
#include "prefetch/plan.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace dsec::prefetch {

namespace {

bool lies_before(const PackRange& a, const PackRange& b) {
  return std::tie(a.pack, a.offset) < std::tie(b.pack, b.offset);
}

// Adds ranges, joined where they touch or nearly do, to the end of the plan.
void add_joined(std::vector<PackRange> ranges, const PlanOptions& options, Plan& plan) {
  std::sort(ranges.begin(), ranges.end(), lies_before);
  const std::size_t first = plan.ranges.size();
  for (const PackRange& range : ranges) {
    if (plan.ranges.size() > first) {
      PackRange& last = plan.ranges.back();
      const std::uint64_t end = last.offset + last.length;
      const std::uint64_t joined_end = std::max(end, range.offset + range.length);
      if (last.pack == range.pack && range.offset <= end + options.max_gap_bytes &&
          joined_end - last.offset <= options.max_read_bytes) {
        plan.bytes += joined_end - end;
        last.length = joined_end - last.offset;
        continue;
      }
    }
    plan.ranges.push_back(range);
    plan.bytes += range.length;
  }
}

PackRange range_of(const format::ChunkLocation& location) {
  return {location.pack, location.offset, location.stored_bytes};
}

// Layers of one image tend to follow each other in a trace: the one that had the last chunk is asked first.
class Finder {
 public:
  explicit Finder(Layers layers) : layers_(layers) {}

  std::optional<PackRange> find(const Digest& digest) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::size_t at = (last_ + i) % layers_.size();
      if (const auto location = layers_[at]->map().find(digest)) {
        last_ = at;
        return range_of(*location);
      }
    }
    return std::nullopt;
  }

 private:
  Layers layers_;
  std::size_t last_ = 0;
};

}  // namespace

Plan plan_trace(const format::Trace& trace, Layers layers, const PlanOptions& options) {
  Plan plan;
  Finder finder(layers);
  std::vector<PackRange> batch;
  std::uint64_t batch_bytes = 0;
  for (const Digest& digest : trace) {
    const auto range = finder.find(digest);
    if (!range) continue;
    batch_bytes += range->length;
    batch.push_back(*range);
    if (batch_bytes < options.batch_bytes) continue;
    add_joined(std::exchange(batch, {}), options, plan);
    batch_bytes = 0;
  }
  add_joined(std::move(batch), options, plan);
  return plan;
}

Plan plan_all(Layers layers, const PlanOptions& options) {
  std::vector<PackRange> ranges;
  for (const auto& layer : layers) {
    const format::LocationMapView& map = layer->map();
    for (std::size_t i = 0; i < map.size(); ++i) ranges.push_back(range_of(map.entry(i).location));
  }
  Plan plan;
  add_joined(std::move(ranges), options, plan);
  return plan;
}

}  // namespace dsec::prefetch
