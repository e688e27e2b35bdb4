// SPDX-License-Identifier: Apache-2.0
#include "base/mounts.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>

namespace dsec {

tl::unexpected<Error> MountContext::failure(int error, const std::string& what) const {
  char text[512];  // "e TYPE: the reason"
  const ssize_t n = ::read(fd_.get(), text, sizeof text);
  const std::string reason =
      n > 2 ? fmt::format(" ({})", std::string_view(text + 2, static_cast<std::size_t>(n) - 2)) : std::string();
  return fail_sys(error, fmt::format("{}: {}{}", type_, what, reason));
}

Result<MountContext> MountContext::open(const char* type) {
  Fd fd(::fsopen(type, FSOPEN_CLOEXEC));
  if (fd.valid()) return MountContext(std::move(fd), type);
  if (errno == ENODEV || errno == ENOSYS) return fail(ErrorCode::unsupported, "this kernel has no {}", type);
  return fail_sys(errno, fmt::format("fsopen {}", type));
}

Result<void> MountContext::set(const char* key, const std::string& value) {
  if (::fsconfig(fd_.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0) == 0) return {};
  const int error = errno;
  return failure(error, fmt::format("option {}", key));
}

Result<void> MountContext::set_path(const char* key, const Fd& fd) {
  return set(key, fmt::format("/proc/self/fd/{}", fd.get()));
}

Result<Fd> MountContext::create(unsigned attributes) {
  if (::fsconfig(fd_.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    const int error = errno;
    return failure(error, "create");
  }
  Fd mount(::fsmount(fd_.get(), FSMOUNT_CLOEXEC, attributes));
  if (mount.valid()) return mount;
  const int error = errno;
  return failure(error, "mount");
}

Result<Fd> copy_mount(const std::filesystem::path& path) {
  Fd mount(::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!mount.valid()) return fail_sys(errno, fmt::format("copy the mount of {}", path.native()));
  return mount;
}

Result<Fd> copy_mount(const Fd& mount) {
  Fd copy(::open_tree(mount.get(), "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));
  if (!copy.valid()) return fail_sys(errno, "copy a mount");
  return copy;
}

Result<void> set_mount_attributes(const Fd& mount, unsigned attributes) {
  struct mount_attr wanted {};
  wanted.attr_set = attributes;
  if (::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &wanted, sizeof wanted) != 0) {
    return fail_sys(errno, "set the attributes of a mount");
  }
  return {};
}

Result<void> attach_mount(const Fd& mount, const std::filesystem::path& directory) {
  if (::move_mount(mount.get(), "", AT_FDCWD, directory.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return fail_sys(errno, fmt::format("mount on {}", directory.native()));
  }
  return {};
}

}  // namespace dsec
