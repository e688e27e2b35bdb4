// SPDX-License-Identifier: Apache-2.0
// Mounts without a place: made, handed on and used by descriptor (fsopen(2), fsmount(2), open_tree(2)).
#pragma once

#include <filesystem>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

// A file system that is being put together. Errors have the kernel's own words where it gives any. Not thread-safe.
class MountContext {
 public:
  // `unsupported` when the kernel does not have the file system (or fsopen: Linux 5.2).
  static Result<MountContext> open(const char* type);

  Result<void> set(const char* key, const std::string& value);
  // A directory or file named by its descriptor: "/proc/self/fd/N", which every kernel takes for a path.
  Result<void> set_path(const char* key, const Fd& fd);
  // A detached mount of it, with MOUNT_ATTR_* flags: it lives as long as a copy of the descriptor, or what was made of
  // it. The context is spent.
  Result<Fd> create(unsigned attributes);

 private:
  MountContext(Fd fd, const char* type) : fd_(std::move(fd)), type_(type) {}
  [[nodiscard]] tl::unexpected<Error> failure(int error, const std::string& what) const;

  Fd fd_;
  const char* type_;
};

// A detached copy of the mount at `path`, with that directory as its root; and one of a detached mount (Linux 6.15).
Result<Fd> copy_mount(const std::filesystem::path& path);
Result<Fd> copy_mount(const Fd& mount);
// Sets MOUNT_ATTR_* flags of a mount.
Result<void> set_mount_attributes(const Fd& mount, unsigned attributes);
// Puts a detached mount on a directory of our mount namespace.
Result<void> attach_mount(const Fd& mount, const std::filesystem::path& directory);

}  // namespace dsec
