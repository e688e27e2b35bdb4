// SPDX-License-Identifier: Apache-2.0
// Locks between processes.
#pragma once

#include <filesystem>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

// An exclusive lock on a file (flock), which is created with mode 0600 when missing and stays. Held while the object
// lives; the kernel lets go when the process dies, however that happens.
class LockFile {
 public:
  // Waits for who has it.
  static Result<LockFile> wait_for(const std::filesystem::path& path);
  // `exists` when somebody has it.
  static Result<LockFile> try_take(const std::filesystem::path& path);

  // For a child process to inherit: the lock is then held until both have ended.
  [[nodiscard]] const Fd& fd() const { return fd_; }
  // The other way round.
  static LockFile inherited(Fd fd) { return LockFile(std::move(fd)); }

 private:
  explicit LockFile(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace dsec
