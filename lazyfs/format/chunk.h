// SPDX-License-Identifier: Apache-2.0
// Sizes and codecs of chunks, and where a chunk is stored.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace dsec::format {

// Content-defined chunking of version 1 (recorded in store.toml as "fastcdc-16-64-256").
inline constexpr std::size_t kChunkMinBytes = 16 << 10;
inline constexpr std::size_t kChunkAvgBytes = 64 << 10;
inline constexpr std::size_t kChunkMaxBytes = 256 << 10;
// Files up to this size are one chunk.
inline constexpr std::size_t kWholeFileBytes = 128 << 10;
// Runs of zeros at least this long, aligned to kHoleAlign, are holes and are not stored.
inline constexpr std::size_t kHoleMinBytes = 256 << 10;
inline constexpr std::size_t kHoleAlign = 4 << 10;

// A recipe is stored like a chunk but may be larger.
inline constexpr std::size_t kMaxRecipeBytes = std::size_t{256} << 20;

enum class Codec : std::uint8_t { plain = 0, lz4 = 1 };

enum class Effort { fast, high };  // LZ4 or LZ4HC; both decode alike

// Where the bytes of one digest stand.
struct ChunkLocation {
  Digest pack;
  std::uint64_t offset = 0;  // in the pack file
  std::uint32_t stored_bytes = 0;
  std::uint32_t plain_bytes = 0;  // after decoding
  Codec codec = Codec::plain;
  friend bool operator==(const ChunkLocation&, const ChunkLocation&) = default;
};

// Whether a chunk or recipe can have these sizes: 1 to kMaxRecipeBytes plain bytes, as many stored ones when it is
// stored plain, fewer (but some) when it is compressed.
bool sizes_are_possible(Codec codec, std::uint32_t stored_bytes, std::uint32_t plain_bytes);

struct Encoded {
  Codec codec = Codec::plain;
  Bytes bytes;  // empty for `plain`: the input itself is to be stored
};

// Compresses one chunk; `plain` when that does not save at least 1/16 of its size.
Encoded encode_chunk(ByteView plain, Effort effort);

// The plain bytes of a stored chunk. `corrupt` when they are not exactly `plain_bytes` long; says nothing about the
// digest. Never writes outside the result, whatever the input is.
Result<Bytes> decode_chunk(Codec codec, ByteView stored, std::size_t plain_bytes);

}  // namespace dsec::format
