// SPDX-License-Identifier: Apache-2.0
#include "cli/bind_mount.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/mounts.h"
#include "base/paths.h"

namespace dsec::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxRecordBytes = 1 << 20;

fs::path records_dir() { return runtime_dir() / "mounts"; }
fs::path record_path(const fs::path& directory) {
  return records_dir() / (sha256(as_bytes(directory.native())).brief() + ".json");
}

}  // namespace

Result<void> bind_tree(const fs::path& tree, const fs::path& directory) {
  if (::mount(tree.c_str(), directory.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return fail_sys(errno, fmt::format("bind {} to {}", tree.native(), directory.native()));
  }
  if (::mount(nullptr, directory.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NODEV | MS_NOSUID, nullptr) !=
      0) {
    const int error = errno;
    ::umount2(directory.c_str(), MNT_DETACH);
    return fail_sys(error, fmt::format("make {} read-only", directory.native()));
  }
  return {};
}

Result<void> bind_mount(const Fd& mount, const fs::path& directory) {
  const Fd copy = TRY(copy_mount(mount));
  TRY(set_mount_attributes(copy, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID));
  return attach_mount(copy, directory);
}

Result<void> unbind(const fs::path& directory) {
  if (::umount2(directory.c_str(), UMOUNT_NOFOLLOW) != 0) {
    return fail_sys(errno, fmt::format("unmount {}", directory.native()));
  }
  return {};
}

Result<void> save_record(const MountRecord& record) {
  TRY(make_dirs(records_dir()));
  const Json document = {
      {"directory", record.directory.native()}, {"store", record.store.native()}, {"env", record.env}};
  return write_file_atomic(records_dir(), record_path(record.directory), as_bytes(dump_json(document)));
}

Result<MountRecord> load_record(const fs::path& directory) {
  const Bytes bytes = TRY(read_file(record_path(directory), kMaxRecordBytes));
  const Json document = TRY(parse_json(as_text(bytes), record_path(directory).native()));
  return MountRecord{TRY(json_text(document, "directory")), TRY(json_text(document, "store")),
                     TRY(json_text(document, "env"))};
}

void remove_record(const fs::path& directory) {
  std::error_code ignored;
  fs::remove(record_path(directory), ignored);
}

}  // namespace dsec::cli
