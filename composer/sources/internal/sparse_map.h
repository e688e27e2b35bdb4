// SPDX-License-Identifier: Apache-2.0
// The maps of sparse files in GNU tar's four forms (GNU tar manual, "Storing Sparse Files").
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "composer/sources/internal/byte_stream.h"
#include "composer/sources/internal/tar_header.h"

namespace dsec::composer {

// More segments than a real file has; a map beyond it is refused as hostile (32 MiB of memory).
inline constexpr std::size_t kMaxSparseSegments = std::size_t{1} << 21;

// `length` bytes of the archive that belong at `offset` of the file.
struct SparseSegment {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

struct SparseMap {
  std::uint64_t real_size = 0;
  std::vector<SparseSegment> segments;
};

// Old GNU: four segments in the header, more in blocks that follow it. Reads those blocks.
Result<SparseMap> read_old_gnu_map(const TarBlock& header, StreamReader& reader);
// pax 1.0: decimal lines at the start of the data, padded to a block. Reads them; returns the bytes they took.
struct LeadingMap {
  std::vector<SparseSegment> segments;
  std::uint64_t bytes = 0;
};
Result<LeadingMap> read_leading_map(StreamReader& reader, std::uint64_t available);
// pax 0.1: "offset,length,offset,length".
Result<std::vector<SparseSegment>> parse_map_record(std::string_view text);

// `invalid` unless the segments are in order, do not overlap, lie in the file and add up to `stored_bytes`.
Result<void> check_sparse_map(const SparseMap& map, std::uint64_t stored_bytes);

// A whole decimal number without sign; `invalid` otherwise, naming `what`.
Result<std::uint64_t> parse_decimal(std::string_view text, std::string_view what);

}  // namespace dsec::composer
