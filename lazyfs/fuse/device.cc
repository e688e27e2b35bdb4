// SPDX-License-Identifier: Apache-2.0
#include "fuse/device.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/process.h"

namespace dsec::fuse {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kInitBufferBytes = 64 << 10;  // the kernel refuses less than 8 KiB
constexpr std::uint64_t kHasResend = std::uint64_t{1} << 39;
constexpr std::uint64_t kOverIoUring = std::uint64_t{1} << 41;
constexpr std::uint32_t kInitExtended = std::uint32_t{1} << 30;  // `flags2` holds the upper half of the flags
constexpr std::size_t kFlags2Offset = sizeof(fuse_in_header) + 16;
constexpr std::int32_t kNotifyResend = 7;
constexpr unsigned long kMountFlags = MS_RDONLY | MS_NOSUID | MS_NODEV;

Result<Fd> mount_as_root(const fs::path& mountpoint) {
  Fd fd = TRY(open_file("/dev/fuse", O_RDWR));
  const std::string options = fmt::format("fd={},rootmode=40000,user_id={},group_id={},allow_other,default_permissions",
                                          fd.get(), ::getuid(), ::getgid());
  if (::mount("lazyfs", mountpoint.c_str(), "fuse.lazyfs", kMountFlags, options.c_str()) != 0) {
    return fail_sys(errno, fmt::format("mount on {}", mountpoint.native()));
  }
  return fd;
}

// fusermount3 mounts and sends the descriptor over a socket (util/fusermount.c of libfuse).
Result<Fd> receive_descriptor(const Fd& socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  const cmsghdr* const header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return fail(ErrorCode::unsupported, "fusermount3 did not mount: see its message above");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return Fd(fd);
}

Result<Fd> mount_by_helper(const fs::path& mountpoint) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail_sys(errno, "make a socket pair");
  const Fd ours(ends[0]);
  Fd theirs(ends[1]);
  SpawnOptions options;
  options.argv = {"fusermount3", "-o", "ro,allow_other,default_permissions,fsname=lazyfs,subtype=lazyfs", "--",
                  mountpoint.native()};
  options.env = {{"_FUSE_COMMFD", "3"}};
  options.fds = {{theirs.get(), 3}};
  ChildProcess helper = TRY(ChildProcess::spawn(options));
  theirs.reset();
  auto fd = receive_descriptor(ours);
  TRY(helper.wait());
  return fd;
}

// The kernel sends it as soon as it has mounted.
Result<Bytes> receive_init(const Fd& fd) {
  Bytes bytes(kInitBufferBytes);
  ssize_t n = 0;
  do {
    n = ::read(fd.get(), bytes.data(), bytes.size());
  } while (n < 0 && (errno == EINTR || errno == EAGAIN));
  if (n < 0) return fail_sys(errno, "read the first request of the kernel");
  bytes.resize(static_cast<std::size_t>(n));
  fuse_in_header header{};
  if (bytes.size() < sizeof header) return fail(ErrorCode::unsupported, "the first request of the kernel is cut short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.opcode != FUSE_INIT) {
    return fail(ErrorCode::unsupported, "the kernel begins with request {} and not with INIT", header.opcode);
  }
  return bytes;
}

}  // namespace

Result<Device> mount_device(const fs::path& mountpoint) {
  auto fd = mount_as_root(mountpoint);
  if (!fd && (fd.error().sys == EPERM || fd.error().sys == EACCES)) fd = mount_by_helper(mountpoint);
  if (!fd) {
    return fail(ErrorCode::unsupported, "cannot mount on {}: {}; `dsec doctor` tells what is missing",
                mountpoint.native(), fd.error().message);
  }
  auto init = receive_init(*fd);
  if (!init) {
    unmount_device(mountpoint);
    return tl::unexpected(std::move(init).error().within(mountpoint.native()));
  }
  return Device{mountpoint, std::move(*fd), std::move(*init)};
}

void unmount_device(const fs::path& mountpoint) {
  if (::umount2(mountpoint.c_str(), MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || errno != EPERM) return;
  [[maybe_unused]] const auto ignored = run_program({"fusermount3", "-u", "-q", "-z", "--", mountpoint.native()});
}

void clear_stale_mount(const fs::path& mountpoint) {
  while (::umount2(mountpoint.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
    log(LogLevel::warn, "stale_mount_removed", {{"path", mountpoint.native()}});
  }
}

namespace {

bool offers(ByteView init, std::uint64_t what) {
  constexpr std::size_t kFlagsOffset = kFlags2Offset - sizeof(std::uint32_t);
  if (init.size() < kFlags2Offset + sizeof(std::uint32_t)) return false;
  std::uint32_t flags = 0;
  std::uint32_t flags2 = 0;
  std::memcpy(&flags, init.data() + kFlagsOffset, sizeof flags);
  std::memcpy(&flags2, init.data() + kFlags2Offset, sizeof flags2);
  return (flags & kInitExtended) != 0 && ((std::uint64_t{flags2} << 32) & what) != 0;
}

}  // namespace

bool can_resend(ByteView init) { return offers(init, kHasResend); }

bool offers_rings(ByteView init) { return offers(init, kOverIoUring); }

Result<void> ask_again(const Fd& device) {
  fuse_out_header header{};
  header.len = sizeof header;
  header.error = kNotifyResend;  // unique is 0: a notification, and this is its code
  if (::write(device.get(), &header, sizeof header) == static_cast<ssize_t>(sizeof header)) return {};
  if (errno == EINVAL) return fail(ErrorCode::unsupported, "this kernel cannot send requests again");
  return fail_sys(errno, "ask the kernel to send its requests again");
}

}  // namespace dsec::fuse
