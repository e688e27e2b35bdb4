// SPDX-License-Identifier: Apache-2.0
// The 512-byte header blocks of tar archives: v7, ustar, GNU and star.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace dsec::composer {

inline constexpr std::size_t kTarBlock = 512;
using TarBlock = std::array<std::uint8_t, kTarBlock>;

enum class TarFlavour { v7, ustar, gnu, star };

// The fields of one header, numbers decoded (octal or GNU's base-256), strings up to their NUL, `name` with the ustar
// prefix in front. Sources: POSIX.1-2017 pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar Format".
struct TarHeader {
  TarFlavour flavour = TarFlavour::v7;
  char type = '0';
  std::string name;
  std::string link;
  std::uint64_t mode = 0;
  std::uint64_t uid = 0;
  std::uint64_t gid = 0;
  std::uint64_t size = 0;
  std::int64_t mtime = 0;
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
};

bool is_zero_block(const TarBlock& block);

// `invalid` for a wrong checksum or a number that is none, negative or beyond 64 bits.
Result<TarHeader> parse_tar_header(const TarBlock& block);

// A numeric field. signed: base-256 may be negative. Blank fields are 0. `what` names the field in errors.
Result<std::int64_t> parse_tar_signed(std::string_view field, const char* what);
Result<std::uint64_t> parse_tar_number(std::string_view field, const char* what);

inline std::string_view tar_field(const TarBlock& block, std::size_t offset, std::size_t size) {
  return {reinterpret_cast<const char*>(block.data()) + offset, size};
}

}  // namespace dsec::composer
