// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/posix_acl.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/bytes.h"
#include "base/text.h"
#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/sparse_map.h"

namespace dsec::composer {

namespace {

constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kNoId = 0xffffffff;
constexpr std::size_t kMaxEntries = 8000;  // more do not fit an xattr

enum Tag : std::uint16_t { user_obj = 0x01, user = 0x02, group_obj = 0x04, group = 0x08, mask = 0x10, other = 0x20 };

struct AclEntry {
  std::uint16_t tag = 0;
  std::uint16_t permissions = 0;
  std::uint32_t id = kNoId;
  friend auto operator<=>(const AclEntry& a, const AclEntry& b) {
    return std::pair(a.tag, a.id) <=> std::pair(b.tag, b.id);
  }
};

std::string_view trimmed(std::string_view text) {
  text = text.substr(0, text.find('#'));
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

Result<std::uint16_t> tag_of(std::string_view word, bool named) {
  if (word == "user" || word == "u") return named ? Tag::user : Tag::user_obj;
  if (word == "group" || word == "g") return named ? Tag::group : Tag::group_obj;
  if ((word == "mask" || word == "m") && !named) return Tag::mask;
  if ((word == "other" || word == "o") && !named) return Tag::other;
  return fail(ErrorCode::invalid, "an ACL entry of kind \"{}\"", shown(word));
}

Result<std::uint16_t> permissions_of(std::string_view text) {
  std::uint16_t bits = 0;
  for (const char c : text) {
    switch (c) {
      case 'r': bits |= 4; break;
      case 'w': bits |= 2; break;
      case 'x': bits |= 1; break;
      case '-': break;
      default: return fail(ErrorCode::invalid, "ACL permissions \"{}\"", shown(text));
    }
  }
  return bits;
}

Result<std::uint32_t> id_of(std::string_view text) {
  const Result<std::uint64_t> id = parse_decimal(text, "id");
  if (!id || *id >= kNoId) {
    return fail(ErrorCode::invalid,
                "the ACL names \"{}\", whose number the archive does not say; archive it with --xattrs "
                "--xattrs-include='*' as well",
                shown(text));
  }
  return static_cast<std::uint32_t>(*id);
}

Result<AclEntry> parse_entry(std::string_view text) {
  const std::vector<std::string_view> fields = split(text, ':');
  // "other:r--" and "mask:r--" without the empty name are as good.
  const bool short_form = fields.size() == 2;
  if (fields.size() < 2 || fields.size() > 4) return fail(ErrorCode::invalid, "ACL entry \"{}\"", shown(text));
  const std::string_view name = short_form ? std::string_view() : fields[1];
  AclEntry entry;
  entry.tag = TRY(tag_of(fields[0], !name.empty()));
  entry.permissions = TRY(permissions_of(fields[short_form ? 1 : 2]));
  if (!name.empty()) entry.id = TRY(id_of(fields.size() == 4 ? fields[3] : name));
  return entry;
}

// What the kernel's posix_acl_valid() asks for.
Result<void> check_entries(const std::vector<AclEntry>& entries) {
  const auto count = [&](std::uint16_t tag) {
    return std::count_if(entries.begin(), entries.end(), [tag](const AclEntry& entry) { return entry.tag == tag; });
  };
  const bool named = count(Tag::user) + count(Tag::group) > 0;
  const bool base = count(Tag::user_obj) == 1 && count(Tag::group_obj) == 1 && count(Tag::other) == 1;
  const bool unique = std::adjacent_find(entries.begin(), entries.end(), [](const AclEntry& a, const AclEntry& b) {
                        return (a <=> b) == 0;
                      }) == entries.end();
  if (base && unique && count(Tag::mask) <= 1 && (!named || count(Tag::mask) == 1)) return {};
  return fail(ErrorCode::invalid, "an ACL without exactly one user, group, other and (with named entries) mask");
}

}  // namespace

Result<std::string> acl_xattr_from_text(std::string_view text) {
  std::vector<AclEntry> entries;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(",\n"), text.size());
    const std::string_view part = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty()) continue;
    if (entries.size() == kMaxEntries) return fail(ErrorCode::invalid, "an ACL of more than {} entries", kMaxEntries);
    entries.push_back(TRY(parse_entry(part)));
  }
  if (entries.empty()) return std::string();
  std::sort(entries.begin(), entries.end(), [](const AclEntry& a, const AclEntry& b) { return (a <=> b) < 0; });
  TRY(check_entries(entries));
  Bytes value;
  ByteWriter writer(value);
  writer.put(kVersion);
  for (const AclEntry& entry : entries) {
    writer.put(entry.tag);
    writer.put(entry.permissions);
    writer.put(entry.id);
  }
  return std::string(as_text(value));
}

}  // namespace dsec::composer
