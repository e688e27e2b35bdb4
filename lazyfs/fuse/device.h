// SPDX-License-Identifier: Apache-2.0
// A FUSE mount and the descriptor behind it, without libfuse: what a keeper needs, which outlives the server.
#pragma once

#include <filesystem>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace dsec::fuse {

// One mount. Its connection lives as long as any copy of the descriptor is open anywhere: a server may die, and another
// that has the descriptor goes on. Who owns a device must have no file open on it and must not stat it: the kernel
// would wait for an answer of a server that may be gone.
struct Device {
  std::filesystem::path mountpoint;
  Fd fd;  // of /dev/fuse
  // The FUSE_INIT that the kernel sent, header included. It is taken from the descriptor once; each server gets it
  // from here, and its answer counts when it is the first.
  Bytes init;
};

// Mounts on a directory, read-only, nosuid, nodev, for all users, with the kernel checking permissions. As root by
// mount(2), else (or where that is refused) through fusermount3. `unsupported` says what refused.
Result<Device> mount_device(const std::filesystem::path& mountpoint);

// Cuts the connection and takes the mount away: whoever waits for an answer gets ECONNABORTED, later users ENOTCONN.
// Without a right to cut (not root) the mount goes, and the connection with the last descriptor.
void unmount_device(const std::filesystem::path& mountpoint);

// A mount of a server that died is in the way: its users get ENOTCONN already.
void clear_stale_mount(const std::filesystem::path& mountpoint);

// Whether the kernel that sent this FUSE_INIT can be asked to send again what a dead server took (Linux 6.9,
// FUSE_HAS_RESEND of include/uapi/linux/fuse.h).
bool can_resend(ByteView init);

// Whether that kernel offers requests through io_uring (Linux 6.14, FUSE_OVER_IO_URING).
bool offers_rings(ByteView init);

// Asks to send again. What comes again has bit 63 set in `unique`, which its answer must carry too (fs/fuse/dev.c,
// fuse_resend). `unsupported` on older kernels.
Result<void> ask_again(const Fd& device);

}  // namespace dsec::fuse
