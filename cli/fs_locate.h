// SPDX-License-Identifier: Apache-2.0
// From a path of this host to the daemon that serves it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace dsec::cli {

struct ServedNode {
  std::filesystem::path daemon_dir;
  std::string mount;  // "mnt" or "mnt-xattr" in it
  std::uint64_t node = 0;
  std::filesystem::path path;  // in lazyfs's own mount
};

// Of a file in a mount of lazyfs (bound elsewhere or not), or in an overlayfs above one: what `dsec mount` makes in
// object mode, and those whose lowerdir is an environment's directory. There it is the file with the same path below
// the environment. The last symlink is not followed. `not_found` when there is no such file, `invalid` when no lazyfs
// of ours is behind it, with what is; `unsupported` when an overlay's upper layer has its own file there.
Result<ServedNode> locate_served(const std::filesystem::path& path);

}  // namespace dsec::cli
