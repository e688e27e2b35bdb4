// SPDX-License-Identifier: Apache-2.0
// The root file system of a sandbox: an overlayfs (Documentation/filesystems/overlayfs.rst).
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace dsec::launcher {

struct OverlayLayout {
  enum class Durable { no, yes };
  std::vector<std::filesystem::path> lowers;  // bottom first
  std::filesystem::path upper;                // exists
  std::filesystem::path work;                 // exists, on the file system of `upper`
  std::filesystem::path target;               // exists
  Durable durable = Durable::no;              // no: `volatile`, which never syncs; the upper layer is thrown away
};

// Mounts it in this process's namespace: nodev (crun mounts it once more without; then the cgroup's device policy alone
// stands before devices, as with Docker), suid programs allowed. index, xino, metacopy and redirect_dir are off:
// lazyfs gives the same content at two paths one page cache, which `index=on` would take for hard links. Layers are
// named to the kernel by descriptor, so any byte may be in a path and no host path shows inside. An error names the
// directory that is at fault where the kernel allows to tell.
Result<void> mount_overlay(const OverlayLayout& layout);

}  // namespace dsec::launcher
