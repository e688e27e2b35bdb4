// SPDX-License-Identifier: Apache-2.0
#include "store/file_system_kind.h"

#include <sys/vfs.h>

#include <cerrno>

namespace dsec::store {

namespace {

struct KnownRemote {
  std::uint32_t magic;
  const char* name;
};

constexpr KnownRemote kRemotes[] = {{0x65735546, "fuse"}, {0x6969, "nfs"},        {0x01021997, "9p"},
                                    {0xff534d42, "cifs"}, {0xfe534d42, "smb"},    {0x517b, "smb"},
                                    {0x00c36400, "ceph"}, {0x0bd00bd0, "lustre"}, {0x8f3f5fff, "3fs"},
                                    {0x47504653, "gpfs"}, {0x19830326, "beegfs"}, {0x5346414f, "afs"},
                                    {0x6b414653, "afs"},  {0x73757245, "coda"},   {0x20030528, "orangefs"}};

}  // namespace

Result<FileSystemKind> file_system_kind(const std::filesystem::path& dir) {
  struct statfs found {};
  if (::statfs(dir.c_str(), &found) != 0) return fail_sys(errno, fmt::format("statfs {}", dir.native()));
  for (const KnownRemote& remote : kRemotes) {
    if (static_cast<std::uint32_t>(found.f_type) == remote.magic) {
      return FileSystemKind{FileSystemKind::Where::remote, remote.name};
    }
  }
  return FileSystemKind{};
}

}  // namespace dsec::store
