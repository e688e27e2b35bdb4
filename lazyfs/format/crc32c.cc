// SPDX-License-Identifier: Apache-2.0
#include "format/internal/crc32c.h"

#include <array>

namespace dsec::format {

namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}

constexpr auto kTable = make_table();

}  // namespace

std::uint32_t crc32c(std::uint32_t seed, ByteView bytes) {
  for (const std::uint8_t byte : bytes) seed = (seed >> 8) ^ kTable[(seed ^ byte) & 0xff];
  return seed;
}

}  // namespace dsec::format
