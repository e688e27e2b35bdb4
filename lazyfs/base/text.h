// SPDX-License-Identifier: Apache-2.0
// Small text helpers: quoting names of any bytes, sizes and durations as people write them, suggestions for typos.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsec {

// Printable form of bytes that may be no valid UTF-8: control characters, backslashes, quotes and invalid sequences
// become \xNN, valid UTF-8 stays. Safe for terminals.
std::string escaped(std::string_view bytes);
// The bytes that escaped() made this of; `invalid` for a broken escape.
Result<std::string> unescaped(std::string_view text);
// "text" in double quotes, escaped, when it holds a space, a quote, an equals sign or something not printable.
std::string quoted_if_needed(std::string_view text);
// A JSON string literal; bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

// True when all of `text` is well-formed UTF-8 without NUL.
bool is_utf8(std::string_view text);

// The pieces point into `text`, so a temporary string is refused.
std::vector<std::string_view> split(std::string_view text, char separator);
template <std::same_as<std::string> Temporary>
std::vector<std::string_view> split(Temporary&& text, char separator) = delete;
bool starts_with(std::string_view text, std::string_view prefix);

// "512M", "4G", "64k", "1.5GiB", "4096": bytes, powers of 1024. `invalid` names what is accepted.
Result<std::uint64_t> parse_size(std::string_view text);
// "30s", "5m", "2h", "1d", "250ms", or seconds as a bare number.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);
// "1.4 MiB" and the like, for people.
std::string human_size(std::uint64_t bytes);

// The candidate that differs least from `word`, or empty when none is near enough to be a typo.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace dsec
