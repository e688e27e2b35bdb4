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

  // The same, but a process that took it so and has been killed since does not keep it, though the kernel still waits
  // for one of its threads (ProcessFacts::is_doomed). The file is then replaced. It holds who took it.
  static Result<LockFile> try_take_over(const std::filesystem::path& path);
  // Lets go of it for all who inherited it, too.
  void release();

  // For a child process to inherit: the lock is then held until both have ended.
  [[nodiscard]] const Fd& fd() const { return fd_; }
  // The other way round.
  static LockFile inherited(Fd fd) { return LockFile(std::move(fd)); }

 private:
  explicit LockFile(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace dsec
