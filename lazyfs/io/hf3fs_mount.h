// SPDX-License-Identifier: Apache-2.0
// Is a path on a 3FS mount?
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/mount_table.h"
#include "io/hf3fs_api.h"

namespace dsec::io {

// The mount point of the file system with the number `device` (st_dev of anything on it), when its type is fuse.hf3fs;
// nothing otherwise. Of several the one mounted last.
std::optional<std::string> hf3fs_mount_among(const std::vector<MountEntry>& mounts, dev_t device);

// True when `path`, which must exist, lies on a mount of type fuse.hf3fs. Needs no library. `io` when the path or
// /proc/self/mountinfo cannot be read.
Result<bool> is_on_hf3fs(const std::filesystem::path& path);

// What the library itself says about `path`: the mount point under which it knows the file system. `unsupported` when
// it says that this is not 3FS; `io` and the like when the path cannot be opened.
Result<std::string> hf3fs_mount_point(const Hf3fsApi& api, const std::filesystem::path& path);

}  // namespace dsec::io
