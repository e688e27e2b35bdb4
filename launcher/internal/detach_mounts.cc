// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/detach_mounts.h"

#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/mount_table.h"

namespace dsec::launcher {

Result<void> detach_mounts_below(const std::filesystem::path& dir) {
  std::vector<MountEntry> mounts = TRY(read_mounts());
  std::reverse(mounts.begin(), mounts.end());
  for (const MountEntry& mount : mounts) {
    if (!is_at_or_below(mount.point, dir.native())) continue;
    if (::umount2(mount.point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL) {
      return fail_sys(errno, fmt::format("unmount {}", mount.point));
    }
  }
  return {};
}

}  // namespace dsec::launcher
