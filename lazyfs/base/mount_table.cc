// SPDX-License-Identifier: Apache-2.0
#include "base/mount_table.h"

#include "base/fd.h"
#include "base/text.h"

namespace dsec {

namespace {

constexpr std::uint64_t kMaxMountinfo = 64u << 20;  // about 400,000 mounts; the kernel's default limit is 100,000

// Undoes the kernel's \040 for space and the like.
std::string without_octal(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::vector<MountEntry> parse_mountinfo(std::string_view text) {
  constexpr std::size_t kDevice = 2;
  constexpr std::size_t kRoot = 3;
  constexpr std::size_t kPoint = 4;
  constexpr std::size_t kFirstOptional = 6;
  std::vector<MountEntry> mounts;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> fields = split(line, ' ');
    std::size_t dash = kFirstOptional;
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 3 >= fields.size()) continue;
    mounts.push_back({std::string(fields[kDevice]), without_octal(fields[kRoot]), without_octal(fields[kPoint]),
                      std::string(fields[dash + 1]), without_octal(fields[dash + 3])});
  }
  return mounts;
}

Result<std::vector<MountEntry>> read_mounts() {
  const Bytes bytes = TRY(read_file("/proc/self/mountinfo", kMaxMountinfo));
  return parse_mountinfo(as_text(bytes));
}

const MountEntry* mount_of(const std::vector<MountEntry>& mounts, std::string_view path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (!is_at_or_below(path, mount.point)) continue;
    if (best == nullptr || mount.point.size() >= best->point.size()) best = &mount;
  }
  return best;
}

bool is_at_or_below(std::string_view path, std::string_view directory) {
  if (directory == "/" || path == directory) return true;
  return path.size() > directory.size() && starts_with(path, directory) && path[directory.size()] == '/';
}

}  // namespace dsec
