// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/mount_table.h"

#include <sys/mount.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/text.h"

namespace dsec::launcher {

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
  constexpr std::size_t kRoot = 3;
  constexpr std::size_t kMountPoint = 4;
  constexpr std::size_t kFirstOptional = 6;
  std::vector<MountEntry> mounts;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> fields = split(line, ' ');
    std::size_t dash = kFirstOptional;
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 3 >= fields.size()) continue;
    mounts.push_back({without_octal(fields[kRoot]), without_octal(fields[kMountPoint]), std::string(fields[dash + 1]),
                      std::string(fields[dash + 3])});
  }
  return mounts;
}

Result<std::vector<MountEntry>> read_mounts() {
  const Bytes bytes = TRY(read_file("/proc/self/mountinfo", kMaxMountinfo));
  return parse_mountinfo(as_text(bytes));
}

Result<void> detach_mounts_below(const std::filesystem::path& dir) {
  const std::string exact = dir.native();
  const std::string below = exact + "/";
  std::vector<MountEntry> mounts = TRY(read_mounts());
  std::reverse(mounts.begin(), mounts.end());
  for (const MountEntry& mount : mounts) {
    if (mount.mount_point != exact && !starts_with(mount.mount_point, below)) continue;
    if (::umount2(mount.mount_point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL) {
      return fail_sys(errno, fmt::format("unmount {}", mount.mount_point));
    }
  }
  return {};
}

}  // namespace dsec::launcher
