// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/image_user.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "launcher/internal/root_path.h"

namespace dsec::launcher {

namespace {

constexpr std::uint32_t kMaxId = 2147483647;  // as Docker; above that setuid(2) and tar disagree

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value > kMaxId) return std::nullopt;
  return value;
}

struct PasswdEntry {
  std::string_view name;
  std::uint32_t uid;
  std::uint32_t gid;
  std::string_view home;
};

std::optional<PasswdEntry> find_user(std::string_view passwd, std::string_view wanted) {
  const std::optional<std::uint32_t> wanted_uid = number(wanted);
  for (const std::string_view line : split(passwd, '\n')) {
    const std::vector<std::string_view> fields = split(line, ':');
    if (fields.size() < 6) continue;
    const std::optional<std::uint32_t> uid = number(fields[2]);
    const std::optional<std::uint32_t> gid = number(fields[3]);
    if (!uid || !gid) continue;
    if (fields[0] == wanted || (wanted_uid && *uid == *wanted_uid))
      return PasswdEntry{fields[0], *uid, *gid, fields[5]};
  }
  return std::nullopt;
}

std::optional<std::uint32_t> find_group(std::string_view group, std::string_view wanted) {
  for (const std::string_view line : split(group, '\n')) {
    const std::vector<std::string_view> fields = split(line, ':');
    if (fields.size() >= 3 && fields[0] == wanted) return number(fields[2]);
  }
  return number(wanted);
}

std::vector<gid_t> groups_of(std::string_view group, std::string_view user) {
  std::vector<gid_t> gids;
  for (const std::string_view line : split(group, '\n')) {
    const std::vector<std::string_view> fields = split(line, ':');
    const std::optional<std::uint32_t> gid = fields.size() >= 4 ? number(fields[2]) : std::nullopt;
    if (!gid) continue;
    const std::vector<std::string_view> members = split(fields[3], ',');
    if (std::find(members.begin(), members.end(), user) != members.end()) gids.push_back(*gid);
  }
  return gids;
}

}  // namespace

Result<ImageUser> resolve_user(std::string_view user, std::string_view passwd, std::string_view group) {
  const std::size_t colon = user.find(':');
  const std::string_view name = colon == 0 || user.empty() ? "0" : user.substr(0, colon);
  const std::string_view group_name = colon == std::string_view::npos ? std::string_view() : user.substr(colon + 1);
  ImageUser result;
  const std::optional<PasswdEntry> entry = find_user(passwd, name);
  if (!entry && !number(name)) {
    return fail(ErrorCode::not_found, "there is no user \"{}\" in the environment's /etc/passwd", escaped(name));
  }
  result.uid = entry ? entry->uid : *number(name);
  if (entry) {
    result.gid = entry->gid;
    if (!entry->home.empty() && is_utf8(entry->home)) result.home = entry->home;
  }
  if (group_name.empty()) {
    if (entry) result.groups = groups_of(group, entry->name);
    return result;
  }
  const std::optional<std::uint32_t> gid = find_group(group, group_name);
  if (!gid) {
    return fail(ErrorCode::not_found, "there is no group \"{}\" in the environment's /etc/group", escaped(group_name));
  }
  result.gid = *gid;
  return result;
}

Result<ImageUser> resolve_user_in_root(const Fd& root, std::string_view user) {
  const auto read = [&](std::string_view path) -> Result<std::string> {
    Result<std::string> text = read_in_root(root, path, kMaxUserFile);
    if (!text && text.error().code == ErrorCode::not_found) return std::string();
    return text;
  };
  const std::string passwd = TRY(read("/etc/passwd"));
  const std::string group = TRY(read("/etc/group"));
  return resolve_user(user, passwd, group);
}

}  // namespace dsec::launcher
