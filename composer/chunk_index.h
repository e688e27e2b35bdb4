// SPDX-License-Identifier: Apache-2.0
// What the store already holds.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "format/location_map.h"
#include "store/store.h"

namespace dsec::composer {

// Every chunk and recipe of every pack of a store, as it was when the index was loaded. Takes 88 bytes a chunk.
// Immutable after load(), thread-safe.
class ChunkIndex {
 public:
  // A pack whose index is damaged is left out with a log line: its chunks are then stored again.
  static Result<ChunkIndex> load(const store::Store& store);

  [[nodiscard]] std::optional<format::ChunkLocation> find(const Digest& digest) const;
  // Whether the pack was there and its index was readable.
  [[nodiscard]] bool has_pack(const Digest& pack) const;
  // Whether a pack has the chunk, and in just that place.
  [[nodiscard]] bool has(const format::MapEntry& entry) const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  std::vector<Digest> packs_;              // sorted
  std::vector<format::MapEntry> entries_;  // sorted by digest
};

}  // namespace dsec::composer
