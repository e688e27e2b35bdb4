// SPDX-License-Identifier: Apache-2.0
#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>

#include "base/process.h"
#include "base/text.h"

namespace dsec {

namespace {

// Whether `fd` is still what is called so.
bool is_at(const Fd& fd, const std::filesystem::path& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(fd.get(), &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

// A file that was replaced while we waited for it has nothing to do with the lock any more.
Result<Fd> open_and_lock(const std::filesystem::path& path, int operation) {
  constexpr int kMaxReplaced = 100;
  for (int i = 0; i < kMaxReplaced; ++i) {
    Fd fd = TRY(open_file(path, O_RDWR | O_CREAT, 0600));
    while (::flock(fd.get(), operation) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return fail(ErrorCode::exists, "{} is locked by another process", path.native());
      return fail_sys(errno, fmt::format("lock {}", path.native()));
    }
    if (is_at(fd, path)) return fd;
  }
  return fail(ErrorCode::io, "lock {}: it is replaced again and again", path.native());
}

constexpr std::uint64_t kMaxHolderBytes = 64;

// "PID START_TICKS".
void write_holder(const Fd& fd) {
  const auto facts = facts_of_process(::getpid());
  const std::string text = facts ? fmt::format("{} {}", ::getpid(), facts->start_ticks) : std::string();
  if (::ftruncate(fd.get(), 0) != 0) return;
  // Without it, it only cannot be taken over.
  [[maybe_unused]] const ssize_t ignored = ::pwrite(fd.get(), text.data(), text.size(), 0);
}

bool has_doomed_holder(const std::filesystem::path& path) {
  const auto bytes = read_file(path, kMaxHolderBytes);
  if (!bytes) return false;
  const auto words = split(as_text(*bytes), ' ');
  if (words.size() != 2) return false;
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::from_chars(words[0].data(), words[0].data() + words[0].size(), pid);
  std::from_chars(words[1].data(), words[1].data() + words[1].size(), start_ticks);
  const auto facts = pid > 0 ? facts_of_process(pid) : std::nullopt;
  return facts && facts->start_ticks == start_ticks && facts->is_doomed;
}

}  // namespace

Result<LockFile> LockFile::wait_for(const std::filesystem::path& path) {
  return LockFile(TRY(open_and_lock(path, LOCK_EX)));
}

Result<LockFile> LockFile::try_take(const std::filesystem::path& path) {
  return LockFile(TRY(open_and_lock(path, LOCK_EX | LOCK_NB)));
}

Result<LockFile> LockFile::try_take_over(const std::filesystem::path& path) {
  // One at a time, so that nobody replaces the file of who just did.
  const Fd directory = TRY(open_file(path.parent_path(), O_RDONLY | O_DIRECTORY));
  while (::flock(directory.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return try_take(path);  // no such locks here (NFS)
  }
  auto lock = try_take(path);
  if (!lock && lock.error().code == ErrorCode::exists && has_doomed_holder(path)) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    lock = try_take(path);
  }
  if (lock) write_holder(lock->fd());
  return lock;
}

void LockFile::release() {
  if (fd_.valid()) ::flock(fd_.get(), LOCK_UN);
  fd_.reset();
}

}  // namespace dsec
