// SPDX-License-Identifier: Apache-2.0
// Compressed streams, and finding out whether a stream is compressed.
#pragma once

#include <memory>

#include "composer/sources/internal/byte_stream.h"

namespace dsec::composer {

enum class Compression { none, gzip, zstd, xz, bzip2 };
const char* to_string(Compression compression);

// What the first bytes of a stream say it is; `none` for anything unknown. kMagicBytes are enough.
inline constexpr std::size_t kMagicBytes = 6;
Compression detect_compression(ByteView start);

// The plain bytes of `inner`. Damage is `corrupt`: checksums of the format are verified, a stream that ends early is an
// error. Gzip and zstd may have several members; what follows a gzip member and is none itself is read and ignored, as
// gzip(1) does. Gzip is done with zlib: libarchive does not verify its checksum.
std::unique_ptr<ByteStream> decompress(std::unique_ptr<ByteStream> inner, Compression compression);

}  // namespace dsec::composer
