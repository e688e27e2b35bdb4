// SPDX-License-Identifier: Apache-2.0
// Whether a directory is on this machine's own disks.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace dsec::store {

struct FileSystemKind {
  enum class Where { local, remote } where = Where::local;
  std::string name;  // "nfs", "fuse"; empty for what is not known as remote
};

// By the magic number that statfs(2) gives (linux/magic.h, and what file systems outside the kernel publish). FUSE
// counts as remote, since it is that for stores; what is not known counts as local. May block as long as the file
// system does.
Result<FileSystemKind> file_system_kind(const std::filesystem::path& dir);

}  // namespace dsec::store
