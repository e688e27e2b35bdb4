// SPDX-License-Identifier: Apache-2.0
#include "format/chunk.h"

#include <lz4.h>
#include <lz4hc.h>

namespace dsec::format {

bool sizes_are_possible(Codec codec, std::uint32_t stored_bytes, std::uint32_t plain_bytes) {
  if (plain_bytes == 0 || plain_bytes > kMaxRecipeBytes) return false;
  return codec == Codec::plain ? stored_bytes == plain_bytes : stored_bytes > 0 && stored_bytes < plain_bytes;
}

Encoded encode_chunk(ByteView plain, Effort effort) {
  const std::size_t limit = plain.size() - plain.size() / 16;  // more than this is not worth decoding later
  if (plain.size() < 64 || plain.size() > LZ4_MAX_INPUT_SIZE) return {};
  Encoded encoded{Codec::lz4, Bytes(limit)};
  const auto* const in = reinterpret_cast<const char*>(plain.data());
  auto* const out = reinterpret_cast<char*>(encoded.bytes.data());
  const int in_bytes = static_cast<int>(plain.size());
  const int room = static_cast<int>(limit);
  const int written = effort == Effort::high ? LZ4_compress_HC(in, out, in_bytes, room, LZ4HC_CLEVEL_DEFAULT)
                                             : LZ4_compress_default(in, out, in_bytes, room);
  if (written <= 0) return {};
  encoded.bytes.resize(static_cast<std::size_t>(written));
  return encoded;
}

Result<Bytes> decode_chunk(Codec codec, ByteView stored, std::size_t plain_bytes) {
  if (plain_bytes > kMaxRecipeBytes) return fail(ErrorCode::corrupt, "a chunk of {} bytes is too large", plain_bytes);
  if (codec == Codec::plain) {
    if (stored.size() != plain_bytes) {
      return fail(ErrorCode::corrupt, "a plain chunk has {} bytes instead of {}", stored.size(), plain_bytes);
    }
    return Bytes(stored.begin(), stored.end());
  }
  if (codec != Codec::lz4) return fail(ErrorCode::corrupt, "unknown codec {}", static_cast<int>(codec));
  Bytes plain(plain_bytes);
  const int written =
      LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()), reinterpret_cast<char*>(plain.data()),
                          static_cast<int>(stored.size()), static_cast<int>(plain_bytes));
  if (written < 0 || static_cast<std::size_t>(written) != plain_bytes) {
    return fail(ErrorCode::corrupt, "an LZ4 chunk does not decode to its {} bytes", plain_bytes);
  }
  return plain;
}

}  // namespace dsec::format
