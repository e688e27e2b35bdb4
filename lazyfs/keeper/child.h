// SPDX-License-Identifier: Apache-2.0
// The lazyfsd that is being kept.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"

namespace dsec::keeper {

// How a lazyfsd ended.
struct Ending {
  std::string reason;  // for people
  // By a signal of its own making (a wild pointer, a failed check) or an exit code that nobody asked for; not by
  // SIGKILL, which comes from outside.
  bool crashed = false;
};

// One process: a child of ours, or one that outlived its keeper. The destructor kills and reaps a child of ours.
class Child {
 public:
  // Runs `program`, which may be any descriptor of an executable (also O_PATH, also of a file that has been replaced
  // since), as `argv`. `fds` as in SpawnOptions.
  static Result<Child> start(const Fd& program, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds);
  // `not_found` when there is no such process any more.
  static Result<Child> adopt(pid_t pid);

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Readable once it has ended.
  [[nodiscard]] const Fd& pidfd() const { return pidfd_; }
  // Whether it has been killed, but one of its threads cannot end because the kernel makes it wait for an answer that
  // only its successor can give.
  [[nodiscard]] bool dying() const;
  void kill() const;
  // Once it has ended. A process that only is dying is left behind: nobody waits for it.
  Ending reap();

 private:
  Child(std::optional<ChildProcess> process, pid_t pid, Fd pidfd)
      : process_(std::move(process)), pid_(pid), pidfd_(std::move(pidfd)) {}
  std::optional<ChildProcess> process_;  // none: adopted
  pid_t pid_ = -1;
  Fd pidfd_;
};

}  // namespace dsec::keeper
