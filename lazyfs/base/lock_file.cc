// SPDX-License-Identifier: Apache-2.0
#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace dsec {

namespace {

Result<Fd> open_and_lock(const std::filesystem::path& path, int operation) {
  Fd fd = TRY(open_file(path, O_RDWR | O_CREAT, 0600));
  while (::flock(fd.get(), operation) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return fail(ErrorCode::exists, "{} is locked by another process", path.native());
    return fail_sys(errno, fmt::format("lock {}", path.native()));
  }
  return fd;
}

}  // namespace

Result<LockFile> LockFile::wait_for(const std::filesystem::path& path) {
  return LockFile(TRY(open_and_lock(path, LOCK_EX)));
}

Result<LockFile> LockFile::try_take(const std::filesystem::path& path) {
  return LockFile(TRY(open_and_lock(path, LOCK_EX | LOCK_NB)));
}

}  // namespace dsec
