// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/tar_header.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace dsec::composer {

namespace {

constexpr std::size_t kChecksumOffset = 148;
constexpr std::size_t kChecksumSize = 8;

std::string_view until_nul(std::string_view field) { return field.substr(0, field.find('\0')); }

std::string_view trimmed(std::string_view field) {
  const auto blank = [](char c) { return c == ' ' || c == '\0'; };
  while (!field.empty() && blank(field.front())) field.remove_prefix(1);
  while (!field.empty() && blank(field.back())) field.remove_suffix(1);
  return field;
}

// GNU: the first byte is 0x80 (positive) or 0xff (negative), the rest is a big-endian two's complement number.
Result<std::int64_t> parse_base_256(std::string_view field, const char* what) {
  const bool negative = (field[0] & 0x40) != 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = 0; i < field.size(); ++i) {
    auto byte = static_cast<std::uint8_t>(field[i]);
    if (i == 0) byte = static_cast<std::uint8_t>(negative ? byte | 0x80 : byte & 0x7f);
    const auto top = static_cast<std::uint8_t>(value >> 56);
    if (top != (negative ? 0xff : 0)) return fail(ErrorCode::invalid, "its {} does not fit 64 bits", what);
    value = value << 8 | byte;
  }
  if ((value >> 63 != 0) != negative) return fail(ErrorCode::invalid, "its {} does not fit 64 bits", what);
  return static_cast<std::int64_t>(value);
}

Result<void> check_sum(const TarBlock& block) {
  std::uint64_t plain = 0;
  std::int64_t as_signed = 0;  // what old Sun tars computed
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool inside = i >= kChecksumOffset && i < kChecksumOffset + kChecksumSize;
    const std::uint8_t byte = inside ? ' ' : block[i];
    plain += byte;
    as_signed += static_cast<std::int8_t>(byte);
  }
  const Result<std::int64_t> stored = parse_tar_signed(tar_field(block, kChecksumOffset, kChecksumSize), "checksum");
  if (stored && (*stored == static_cast<std::int64_t>(plain) || *stored == as_signed)) return {};
  return fail(ErrorCode::invalid, "the header's checksum is wrong: damaged, or not a tar archive");
}

TarFlavour flavour_of(const TarBlock& block) {
  const std::string_view magic = tar_field(block, 257, 8);
  if (magic == std::string_view("ustar  \0", 8)) return TarFlavour::gnu;
  if (!magic.starts_with(std::string_view("ustar\0", 6))) return TarFlavour::v7;
  return tar_field(block, 508, 4) == std::string_view("tar\0", 4) ? TarFlavour::star : TarFlavour::ustar;
}

std::string name_of(const TarBlock& block, TarFlavour flavour) {
  std::string name(until_nul(tar_field(block, 0, 100)));
  if (flavour != TarFlavour::ustar && flavour != TarFlavour::star) return name;
  const std::string_view prefix = until_nul(tar_field(block, 345, flavour == TarFlavour::star ? 131 : 155));
  return prefix.empty() ? name : std::string(prefix) + "/" + name;
}

}  // namespace

bool is_zero_block(const TarBlock& block) {
  return std::all_of(block.begin(), block.end(), [](std::uint8_t byte) { return byte == 0; });
}

Result<std::int64_t> parse_tar_signed(std::string_view field, const char* what) {
  if (!field.empty() && (field[0] & 0x80) != 0) return parse_base_256(field, what);
  const std::string_view digits = trimmed(field);
  if (digits.empty()) return 0;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits[0] == '-') {
    return fail(ErrorCode::invalid, "its {} \"{}\" is no octal number", what, escaped(digits));
  }
  return value;
}

Result<std::uint64_t> parse_tar_number(std::string_view field, const char* what) {
  const std::int64_t value = TRY(parse_tar_signed(field, what));
  if (value < 0) return fail(ErrorCode::invalid, "its {} is negative", what);
  return static_cast<std::uint64_t>(value);
}

Result<TarHeader> parse_tar_header(const TarBlock& block) {
  TRY(check_sum(block));
  TarHeader header;
  header.flavour = flavour_of(block);
  header.type = static_cast<char>(block[156]);
  header.name = name_of(block, header.flavour);
  header.link = until_nul(tar_field(block, 157, 100));
  header.mode = TRY(parse_tar_number(tar_field(block, 100, 8), "mode"));
  header.uid = TRY(parse_tar_number(tar_field(block, 108, 8), "uid"));
  header.gid = TRY(parse_tar_number(tar_field(block, 116, 8), "gid"));
  header.size = TRY(parse_tar_number(tar_field(block, 124, 12), "size"));
  header.mtime = TRY(parse_tar_signed(tar_field(block, 136, 12), "mtime"));
  if (header.type == '3' || header.type == '4') {  // elsewhere some writers leave garbage
    header.major = TRY(parse_tar_number(tar_field(block, 329, 8), "major device number"));
    header.minor = TRY(parse_tar_number(tar_field(block, 337, 8), "minor device number"));
  }
  return header;
}

}  // namespace dsec::composer
