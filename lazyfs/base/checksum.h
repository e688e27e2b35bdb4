// SPDX-License-Identifier: Apache-2.0
// Fast checksums against accidents: bit rot, torn writes. They are no protection against intent; that is what Digest is
// for.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace dsec {

// XXH3-64 of the bytes, seed 0, as a number: the same on every machine (https://xxhash.com). Runs at memory speed,
// about ten times that of SHA-256 with the processor's help, so local copies can be checked whenever they are read.
std::uint64_t checksum64(ByteView bytes);

}  // namespace dsec
