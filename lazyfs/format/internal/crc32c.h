// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace dsec::format {

// CRC-32C (Castagnoli, reflected) continued from `seed`, without a final inversion, as EROFS uses it.
std::uint32_t crc32c(std::uint32_t seed, ByteView bytes);

}  // namespace dsec::format
