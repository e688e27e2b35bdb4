// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/pax_records.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "composer/sources/internal/entry_path.h"

namespace dsec::composer {

namespace {

constexpr std::string_view kSchilyXattr = "SCHILY.xattr.";
constexpr std::string_view kLibarchiveXattr = "LIBARCHIVE.xattr.";

PaxRecords::Sparse& sparse_of(PaxRecords& records) {
  if (!records.sparse) records.sparse.emplace();
  return *records.sparse;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "%3D" -> "=". GNU tar encodes only "%" and "=" in xattr names, libarchive whatever is not plain ASCII.
std::string percent_decoded(std::string_view text, bool all) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      const char c = static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      if (all || c == '=' || c == '%') {
        out.push_back(c);
        i += 2;
        continue;
      }
    }
    out.push_back(text[i]);
  }
  return out;
}

Result<std::string> base64_decoded(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return fail(ErrorCode::invalid, "the value is no base64");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((count += 6) >= 8) out.push_back(static_cast<char>(bits >> (count -= 8)));
  }
  return out;
}

Result<void> take_xattr(PaxRecords& records, std::string_view name, std::string_view value) {
  records.xattrs[percent_decoded(name, false)] = value;
  return {};
}

Result<void> take_base64_xattr(PaxRecords& records, std::string_view name, std::string_view value) {
  records.xattrs[percent_decoded(name, true)] = TRY(base64_decoded(value));
  return {};
}

Result<void> take_text(std::optional<std::string>& field, std::string_view value) {
  if (value.find('\0') != std::string_view::npos) return fail(ErrorCode::invalid, "the value holds a NUL");
  field.reset();  // POSIX: an empty value takes the record back
  if (!value.empty()) field.emplace(value);
  return {};
}

Result<void> take_number(std::optional<std::uint64_t>& field, std::string_view value) {
  field.reset();
  if (!value.empty()) field = TRY(parse_decimal(value, "the value"));
  return {};
}

Result<void> take_mtime(PaxRecords& records, std::string_view value) {
  records.mtime.reset();
  if (!value.empty()) records.mtime = TRY(parse_pax_time(value));
  return {};
}

Result<void> take_sparse_offset(PaxRecords& records, std::string_view value) {
  return take_number(sparse_of(records).open_offset, value);
}

Result<void> take_sparse_length(PaxRecords& records, std::string_view value) {
  PaxRecords::Sparse& sparse = sparse_of(records);
  if (!sparse.open_offset) return fail(ErrorCode::invalid, "a length without an offset");
  if (sparse.segments.size() == kMaxSparseSegments) return fail(ErrorCode::invalid, "too many segments");
  sparse.segments.push_back({*std::exchange(sparse.open_offset, std::nullopt), TRY(parse_decimal(value, "the value"))});
  return {};
}

Result<void> take_sparse_map(PaxRecords& records, std::string_view value) {
  sparse_of(records).segments = TRY(parse_map_record(value));
  return {};
}

using Take = Result<void> (*)(PaxRecords&, std::string_view);
struct Keyword {
  std::string_view name;
  Take take;
};

constexpr Keyword kKeywords[] = {
    {"path", [](PaxRecords& r, std::string_view v) { return take_text(r.path, v); }},
    {"linkpath", [](PaxRecords& r, std::string_view v) { return take_text(r.link, v); }},
    {"size", [](PaxRecords& r, std::string_view v) { return take_number(r.size, v); }},
    {"uid", [](PaxRecords& r, std::string_view v) { return take_number(r.uid, v); }},
    {"gid", [](PaxRecords& r, std::string_view v) { return take_number(r.gid, v); }},
    {"mtime", take_mtime},
    {"SCHILY.devmajor", [](PaxRecords& r, std::string_view v) { return take_number(r.major, v); }},
    {"SCHILY.devminor", [](PaxRecords& r, std::string_view v) { return take_number(r.minor, v); }},
    {"SCHILY.acl.access",
     [](PaxRecords& r, std::string_view v) -> Result<void> { return r.access_acl = v, Result<void>(); }},
    {"SCHILY.acl.default",
     [](PaxRecords& r, std::string_view v) -> Result<void> { return r.default_acl = v, Result<void>(); }},
    {"GNU.sparse.major", [](PaxRecords& r, std::string_view v) { return take_number(sparse_of(r).major, v); }},
    {"GNU.sparse.minor", [](PaxRecords& r, std::string_view v) { return take_number(sparse_of(r).minor, v); }},
    {"GNU.sparse.name", [](PaxRecords& r, std::string_view v) { return take_text(sparse_of(r).name, v); }},
    {"GNU.sparse.realsize", [](PaxRecords& r, std::string_view v) { return take_number(sparse_of(r).real_size, v); }},
    {"GNU.sparse.size", [](PaxRecords& r, std::string_view v) { return take_number(sparse_of(r).real_size, v); }},
    {"GNU.sparse.offset", take_sparse_offset},
    {"GNU.sparse.numbytes", take_sparse_length},
    {"GNU.sparse.map", take_sparse_map},
};

Result<void> take_record(PaxRecords& records, std::string_view key, std::string_view value) {
  if (key.starts_with(kSchilyXattr)) return take_xattr(records, key.substr(kSchilyXattr.size()), value);
  if (key.starts_with(kLibarchiveXattr)) {
    return take_base64_xattr(records, key.substr(kLibarchiveXattr.size()), value);
  }
  const auto* known = std::find_if(std::begin(kKeywords), std::end(kKeywords),
                                   [key](const Keyword& keyword) { return keyword.name == key; });
  return known == std::end(kKeywords) ? Result<void>() : known->take(records, value);
}

// Takes "LENGTH KEY=VALUE\n" off the front of `data`, where LENGTH counts the whole record.
Result<std::pair<std::string_view, std::string_view>> next_record(std::string_view& data) {
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(data.data(), data.data() + data.size(), length);
  const auto digits = static_cast<std::size_t>(end - data.data());
  if (error != std::errc{} || digits == 0 || digits >= data.size() || *end != ' ' || length > data.size() ||
      length < digits + 2 || data[length - 1] != '\n') {
    return fail(ErrorCode::invalid, "a pax record that does not start with its length: \"{}\"",
                shown(data.substr(0, 40)));
  }
  std::string_view record = data.substr(digits + 1, length - digits - 2);
  data.remove_prefix(length);
  // The first "=" ends the keyword, also of an xattr's: GNU tar encodes those in names. Other writers do not, and then
  // nobody can tell where the name ends.
  const std::size_t equals = record.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return fail(ErrorCode::invalid, "a pax record without a keyword and \"=\": \"{}\"", shown(record.substr(0, 40)));
  }
  return std::pair(record.substr(0, equals), record.substr(equals + 1));
}

}  // namespace

Result<void> parse_pax_records(std::string_view data, PaxRecords& records) {
  while (!data.empty()) {
    const auto [key, value] = TRY(next_record(data));
    TRY_IN(fmt::format("pax record \"{}\"", shown(key)), take_record(records, key, value));
  }
  return {};
}

Result<format::Timestamp> parse_pax_time(std::string_view text) {
  const std::string_view all = text;
  const auto bad = [all] { return fail(ErrorCode::invalid, "\"{}\" is no time", shown(all)); };
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::size_t point = std::min(text.find('.'), text.size());
  const Result<std::uint64_t> seconds = parse_decimal(text.substr(0, point), "seconds");
  if (!seconds || *seconds > std::uint64_t{1} << 62) return bad();
  std::string_view fraction = text.substr(std::min(point + 1, text.size()));
  if (!std::all_of(fraction.begin(), fraction.end(), [](char c) { return c >= '0' && c <= '9'; })) return bad();
  std::uint32_t nsec = 0;
  for (std::size_t i = 0; i < 9; ++i) nsec = nsec * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  const bool more = fraction.size() > 9 && fraction.find_first_not_of('0', 9) != std::string_view::npos;
  auto sec = static_cast<std::int64_t>(*seconds);
  if (!negative) return format::Timestamp{sec, nsec};
  if (more) ++nsec;  // towards the past
  sec = -sec;
  if (nsec == 0) return format::Timestamp{sec, 0};
  return format::Timestamp{sec - 1, 1'000'000'000 - nsec};
}

}  // namespace dsec::composer
