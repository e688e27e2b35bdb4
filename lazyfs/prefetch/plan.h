// SPDX-License-Identifier: Apache-2.0
// What to fetch ahead of need, and in which reads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/digest.h"
#include "format/trace.h"
#include "store/layer_cache.h"

namespace dsec::prefetch {

// A range of a pack that is read at once.
struct PackRange {
  Digest pack;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const PackRange&, const PackRange&) = default;
};

// Reads in the order in which they should be made.
struct Plan {
  std::vector<PackRange> ranges;
  std::uint64_t bytes = 0;  // of all ranges
};

using Layers = std::span<const std::shared_ptr<const store::Layer>>;

struct PlanOptions {
  std::uint64_t max_read_bytes = 256 << 10;  // what a reader may have to wait for in front of its own read
  std::uint64_t max_gap_bytes = 16 << 10;    // read along between two chunks rather than making two reads
  std::uint64_t batch_bytes = 4 << 20;       // of a trace that may be reordered to make few reads
};

// The chunks of a trace, nearly in its order: within a batch they are read as they lie in the packs. What no layer has
// is passed over, and so are doubles.
Plan plan_trace(const format::Trace& trace, Layers layers, const PlanOptions& options = {});

// All chunks of the layers, pack by pack.
Plan plan_all(Layers layers, const PlanOptions& options = {});

}  // namespace dsec::prefetch
