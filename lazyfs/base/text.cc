// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace dsec {

namespace {

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none (Unicode 15, table 3-7).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : 0xbf;
    return tail(1, low, high) && tail(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xf4 ? 0x8f : 0xbf;
    return tail(1, low, high) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Whether a well-formed character may stand in a text as it is. U+0080 to U+009F control terminals as U+0000 to U+001F
// do.
bool is_plain(std::string_view character) {
  const char c = character[0];
  if (character.size() == 1) return c >= 0x20 && c != 0x7f && c != '\\' && c != '"';
  return character.size() != 2 || character > "\xc2\x9f";
}

}  // namespace

std::string escaped(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length > 0 && is_plain(bytes.substr(0, length))) {
      text += bytes.substr(0, length);
      bytes.remove_prefix(length);
      continue;
    }
    text += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    bytes.remove_prefix(1);
  }
  return text;
}

Result<std::string> unescaped(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    const bool whole = i + 3 < text.size() && text[i + 1] == 'x';
    const int high = whole ? hex_value(text[i + 2]) : -1;
    const int low = whole ? hex_value(text[i + 3]) : -1;
    if (high < 0 || low < 0) return fail(ErrorCode::invalid, "broken escape at byte {} of \"{}\"", i, escaped(text));
    bytes += static_cast<char>(high << 4 | low);
    i += 3;
  }
  return bytes;
}

std::string quoted_if_needed(std::string_view text) {
  std::string safe = escaped(text);
  const bool plain = !safe.empty() && safe == text && safe.find_first_of(" =") == std::string::npos;
  return plain ? safe : fmt::format("\"{}\"", safe);
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + "\"";
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0 || text[0] == '\0') return false;
    text.remove_prefix(length);
  }
  return true;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

namespace {

struct NumberWithUnit {
  double number;
  std::string_view unit;
};

// "1.5GiB" -> 1.5 and "GiB"; nothing when it does not start with a plain number.
bool take_number(std::string_view text, NumberWithUnit& out) {
  if (text.empty() || (text[0] != '.' && (text[0] < '0' || text[0] > '9'))) return false;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out.number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(out.number)) return false;
  out.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  NumberWithUnit parsed{};
  static constexpr std::string_view kUnits = "kmgtp";
  bool good = take_number(text, parsed);
  double factor = 1;
  if (good && !parsed.unit.empty() && parsed.unit != "B" && parsed.unit != "b") {
    const char first = static_cast<char>(parsed.unit[0] | 0x20);
    const std::size_t power = kUnits.find(first);
    const std::string_view rest = parsed.unit.substr(1);
    good =
        power != std::string_view::npos && (rest.empty() || rest == "B" || rest == "b" || rest == "iB" || rest == "i");
    factor = std::pow(1024.0, static_cast<double>(power + 1));
  }
  std::uint64_t exact = 0;  // a whole number of bytes may be one that no double holds
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exact);
  if (good && error == std::errc() && end == text.data() + text.size()) return exact;
  const double bytes = parsed.number * factor;
  if (!good || bytes > 9.0e18) {
    return fail(ErrorCode::invalid, "\"{}\" is no size: write a number of bytes or one with K, M, G or T, as in 512M",
                escaped(text));
  }
  return static_cast<std::uint64_t>(bytes);
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double ms;
  };
  static constexpr std::array<Unit, 6> kUnits{
      {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}}};
  NumberWithUnit parsed{};
  if (take_number(text, parsed)) {
    for (const Unit& unit : kUnits) {
      const double ms = parsed.number * unit.ms;
      if (unit.name == parsed.unit && ms <= 3.2e12) return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
    }
  }
  return fail(ErrorCode::invalid, "\"{}\" is no duration: write 30s, 5m, 2h, 250ms or a number of seconds",
              escaped(text));
}

std::string human_size(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= (unit == 0 ? 1024 : 1023.95) && unit < 5) {  // not "1024.0 KiB"
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

namespace {

// How many letters are to be added, left out or replaced, or neighbours exchanged, to make one of the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), row[j] + 1, last[j + 1] + 1});
      const bool exchanged = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (exchanged) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  // A third of the word may be wrong, but not all of it.
  std::size_t best_distance = std::min(std::max<std::size_t>(2, word.size() / 3) + 1, word.size());
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace dsec
