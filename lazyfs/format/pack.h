// SPDX-License-Identifier: Apache-2.0
// Packs: immutable files of stored chunks, back to back, with an index at the end. docs/format.md, section "Pack".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "format/chunk.h"

namespace dsec::format {

struct PackEntry {
  Digest digest;
  std::uint64_t offset = 0;
  std::uint32_t stored_bytes = 0;
  std::uint32_t plain_bytes = 0;
  Codec codec = Codec::plain;
  friend bool operator==(const PackEntry&, const PackEntry&) = default;
};

inline constexpr std::size_t kPackHeaderBytes = 16;
inline constexpr std::size_t kPackFooterBytes = 64;
inline constexpr std::size_t kPackEntryBytes = Digest::kSize + 8 + 4 + 4 + 4;
inline constexpr std::uint32_t kMaxPackEntries = 1u << 26;

// The first kPackHeaderBytes bytes of every pack.
Bytes pack_header();

// Index and footer to be appended after the last chunk, which ends at `data_end`. The entries may come in any order;
// they are written sorted by digest. Two entries of one digest are a bug of the caller.
Bytes pack_trailer(std::vector<PackEntry> entries, std::uint64_t data_end);

// Where the index of a pack stands, from its last kPackFooterBytes bytes.
struct PackFooter {
  std::uint64_t index_offset = 0;
  std::uint32_t count = 0;
  Digest index_digest;
  [[nodiscard]] std::uint64_t index_bytes() const { return std::uint64_t{count} * kPackEntryBytes; }
};
// `corrupt` when the footer does not fit a file of `file_bytes` bytes.
Result<PackFooter> read_pack_footer(ByteView footer, std::uint64_t file_bytes);

// The entries of an index, checked: digest of the index, order, and every chunk inside the data area.
Result<std::vector<PackEntry>> read_pack_index(const PackFooter& footer, ByteView index);

// A whole pack in memory: header, footer and index as above, for tests and fuzzing.
Result<std::vector<PackEntry>> read_pack(ByteView pack);

}  // namespace dsec::format
