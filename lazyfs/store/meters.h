// SPDX-License-Identifier: Apache-2.0
// Counting by where things came from: what readers were given, and what was read of packs.
#pragma once

#include <array>
#include <memory>

#include "base/metrics.h"
#include "store/chunk_source.h"
#include "store/pack_reader.h"
#include "store/read_cost.h"

namespace dsec::store {

// Chunks and recipes that readers asked for. A chunk that somebody else was fetching already counts as what that fetch
// was.
struct OriginMeter {
  struct Share {
    Counter chunks;
    Counter bytes;  // decoded
  };
  std::array<Share, kOrigins> shares;  // by Origin
  Counter store_bytes;                 // read from the store for them, with what was read beside them
  Counter touched_chunks;              // different ones, up to kMaxTouched
  Counter touched_bytes;               // their stored size
  Counter failures;
  Counter timeouts;  // of the failures: the deadline passed

  // Beyond these nothing is added to touched_*: 8 MiB of memory.
  static constexpr std::size_t kMaxTouched = std::size_t{3} << 18;
};
// The outermost source: also adds to the CostScope of the thread.
std::unique_ptr<ChunkSource> metered_by_origin(std::shared_ptr<ChunkSource> inner, std::shared_ptr<OriginMeter> meter);

// Ranges of packs, for whoever asked. [Urgency][Origin]; Origin::memory never is.
struct PackMeter {
  struct Share {
    Counter reads;
    Counter bytes;        // asked for
    Counter store_bytes;  // read from the store for them
  };
  static constexpr std::size_t kUrgencies = 2;
  std::array<std::array<Share, kOrigins>, kUrgencies> shares;
  std::array<Counter, kUrgencies> failures;
  std::array<LatencyHistogram, kOrigins> took;  // of demand, by origin

  [[nodiscard]] const Share& of(Urgency urgency, Origin origin) const {
    return shares[static_cast<std::size_t>(urgency)][static_cast<std::size_t>(origin)];
  }
};
std::shared_ptr<PackReader> metered_packs(std::shared_ptr<PackReader> inner, std::shared_ptr<PackMeter> meter);

}  // namespace dsec::store
