// SPDX-License-Identifier: Apache-2.0
#include "format/erofs_mount.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/atomic_file.h"

namespace dsec::format::test {

namespace {

// Once per process: what is mounted from here on is seen by us alone and goes away with us.
Result<void> enter_mount_namespace() {
  static const int error = [] {
    if (::unshare(CLONE_NEWNS) != 0) return errno;
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 ? 0 : errno;
  }();
  if (error != 0) return fail_sys(error, "enter a mount namespace");
  return {};
}

// A loop device on the image that goes away with its last user. Another process may take the free number first.
Result<std::string> attach_loop(const std::filesystem::path& image) {
  const Fd file = TRY(open_file(image, O_RDONLY));
  const Fd control = TRY(open_file("/dev/loop-control", O_RDWR));
  for (int attempt = 0; attempt < 20; ++attempt) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return fail_sys(errno, "find a free loop device");
    const std::string device = fmt::format("/dev/loop{}", number);
    const Fd loop = TRY(open_file(device, O_RDONLY));
    struct loop_config config {};
    config.fd = static_cast<std::uint32_t>(file.get());
    config.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
    if (::ioctl(loop.get(), LOOP_CONFIGURE, &config) != 0) {
      if (errno == EBUSY) continue;
      return fail_sys(errno, fmt::format("configure {}", device));
    }
    // Mounted while `loop` is open, or AUTOCLEAR takes the image off again.
    if (::mount(device.c_str(), (image.parent_path() / "mnt").c_str(), "erofs", MS_RDONLY, nullptr) != 0) {
      return fail_sys(errno, fmt::format("mount {}", device));
    }
    return device;
  }
  return fail(ErrorCode::unavailable, "no loop device is free");
}

}  // namespace

Result<ErofsMount> ErofsMount::of_image(ByteView image) {
  if (::geteuid() != 0) return fail(ErrorCode::permission, "mounting an EROFS image needs root");
  TRY(enter_mount_namespace());
  std::string dir = (std::filesystem::temp_directory_path() / "dsec-erofs-XXXXXX").native();
  if (::mkdtemp(dir.data()) == nullptr) return fail_sys(errno, fmt::format("create {}", dir));
  ErofsMount mount{std::filesystem::path(dir)};
  TRY(make_dirs(mount.root()));
  TRY(write_file_atomic(dir, mount.image(), image));
  if (::mount(mount.image().c_str(), mount.root().c_str(), "erofs", MS_RDONLY, nullptr) == 0) return mount;
  if (errno == ENODEV) return fail(ErrorCode::unsupported, "this kernel has no EROFS");
  if (errno != ENOTBLK && errno != EINVAL) return fail_sys(errno, fmt::format("mount {}", mount.image().native()));
  TRY(attach_loop(mount.image()));
  return mount;
}

ErofsMount::~ErofsMount() {
  if (dir_.empty()) return;
  ::umount2(root().c_str(), MNT_DETACH);
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

}  // namespace dsec::format::test
