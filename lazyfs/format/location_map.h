// SPDX-License-Identifier: Apache-2.0
// The location map of a layer: where each of its chunks and recipes is stored. docs/format.md, section "Location map".
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "format/chunk.h"

namespace dsec::format {

struct MapEntry {
  Digest digest;
  ChunkLocation location;
  friend bool operator==(const MapEntry&, const MapEntry&) = default;
};

// The canonical bytes of a map. The entries may come in any order; doubles of one digest must be equal and are dropped.
Bytes write_location_map(std::vector<MapEntry> entries);

// Reads a map in place. Immutable after open(), thread-safe; the bytes must outlive it.
class LocationMapView {
 public:
  // Checks the digest at its end and every entry: once per map and process. `corrupt` otherwise.
  static Result<LocationMapView> open(ByteView bytes);
  // The same for bytes that open() accepted before and that a checksum shows to be unchanged: costs nothing.
  static Result<LocationMapView> open_checked(ByteView bytes);

  // `not_found` when the map does not have the digest.
  [[nodiscard]] Result<ChunkLocation> find(const Digest& digest) const;
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] MapEntry entry(std::size_t index) const;
  // The digest of an entry alone.
  [[nodiscard]] ByteView digest_bytes(std::size_t index) const {
    return entries_.subspan(index * kEntryBytes, Digest::kSize);
  }
  [[nodiscard]] std::size_t pack_count() const { return pack_count_; }
  [[nodiscard]] Digest pack(std::size_t index) const;

 private:
  static constexpr std::size_t kEntryBytes =
      Digest::kSize + 8 + 4 + 4 + 4;  // offset, stored, plain, pack | codec << 31
  [[nodiscard]] Result<void> check_entries() const;

  ByteView packs_;
  ByteView entries_;
  std::size_t count_ = 0;
  std::size_t pack_count_ = 0;
};

}  // namespace dsec::format
