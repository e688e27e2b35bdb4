// SPDX-License-Identifier: Apache-2.0
// What FUSE offers: read from the first request that the kernel sends to a server.
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/fd.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/doctor/internal/host.h"

namespace dsec::doctor {

namespace {

constexpr int kAnswerMs = 500;
constexpr std::size_t kMinRequestBuffer = 8192;  // FUSE_MIN_READ_BUFFER: the kernel refuses smaller reads

// Mounts a file system that nobody serves, over /tmp of this mount namespace, and reads its INIT request.
Result<FuseOffer> ask_kernel(const Fd& device) {
  const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", device.get());
  if (::mount("dsec-doctor", "/tmp", "fuse", MS_RDONLY | MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    return fail_sys(errno, "mount");
  }
  std::array<std::uint8_t, kMinRequestBuffer> buffer{};
  struct pollfd entry {
    device.get(), POLLIN, 0
  };
  const ssize_t bytes = ::poll(&entry, 1, kAnswerMs) == 1 ? ::read(device.get(), buffer.data(), buffer.size()) : -1;
  ::umount2("/tmp", MNT_DETACH | MNT_FORCE);
  if (bytes < 0) return fail(ErrorCode::timeout, "the kernel sent no request");
  const auto offer = parse_fuse_init(ByteView(buffer).first(static_cast<std::size_t>(bytes)));
  if (!offer) return fail(ErrorCode::invalid, "the kernel's first request is not understood");
  return *offer;
}

Findings describe(const FuseOffer& offer, const HostFiles& host) {
  Findings findings;
  findings.push_back(fine("fuse", fmt::format("mounted; protocol 7.{}", offer.minor)));
  findings.push_back(offer.resend
                         ? fine("fuse resend", "offered")
                         : degraded("fuse resend", "not offered",
                                    "reads that wait while lazyfsd is restarted fail or hang", "Linux 6.9 or later"));
  findings.push_back(offer.passthrough
                         ? fine("fuse passthrough", "offered")
                         : degraded("fuse passthrough", "not offered",
                                    "large files that are all here cannot be read without lazyfsd in between",
                                    "Linux 6.9 or later with CONFIG_FUSE_PASSTHROUGH"));
  const std::string enabled = host.read("sys/module/fuse/parameters/enable_uring");
  if (offer.io_uring) {
    findings.push_back(fine("fuse io_uring", "offered"));
  } else if (enabled.empty()) {
    findings.push_back(degraded("fuse io_uring", "not in this kernel",
                                "cold lookups and reads take the slower classic way",
                                "Linux 6.14 or later with CONFIG_FUSE_IO_URING"));
  } else {
    findings.push_back(degraded("fuse io_uring", "switched off", "cold lookups and reads take the slower classic way",
                                "echo 1 > /sys/module/fuse/parameters/enable_uring"));
  }
  return findings;
}

}  // namespace

Findings examine_fuse(const HostFiles& host) {
  constexpr const char* kConsequence = "lazyfs cannot be mounted: neither `dsec mount` nor `dsec run` works";
  if (!lists_filesystem(host.read("proc/filesystems"), "fuse")) {
    return {
        missing("fuse", "not in /proc/filesystems", kConsequence, "modprobe fuse, or a kernel with CONFIG_FUSE_FS")};
  }
  const auto device = open_file("/dev/fuse", O_RDWR | O_NONBLOCK);
  if (!device) {
    return {missing("fuse", device.error().message, kConsequence,
                    "give the container the device (--device /dev/fuse), or the user access to it")};
  }
  Result<FuseOffer> offer = fail(ErrorCode::internal, "not tried");
  const auto entered = in_private_mounts([&] { offer = ask_kernel(*device); });
  if (!entered) {
    const bool helper = run_program({"fusermount3", "--version"}).has_value();
    return {helper ? fine("fuse", "/dev/fuse opens, fusermount3 is there; a mount was not tried")
                   : missing("fuse", "/dev/fuse opens, but we may not mount and there is no fusermount3", kConsequence,
                             "run as root, or install fuse3")};
  }
  if (!offer) return {missing("fuse", "a mount failed: " + offer.error().message, kConsequence, "see the message")};
  return describe(*offer, host);
}

}  // namespace dsec::doctor
