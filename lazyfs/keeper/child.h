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

// Children that were killed and are still there, since the kernel waits for one of their threads (a store that does not
// answer). Nobody waits for them; they are reaped when they are gone. What they keep until then: copies of descriptors,
// so that nothing ends because the last of those is closed. The destructor leaves them to whoever adopts orphans.
class LeftBehind {
 public:
  LeftBehind() = default;
  ~LeftBehind();
  LeftBehind(const LeftBehind&) = delete;
  LeftBehind& operator=(const LeftBehind&) = delete;
  void add(ChildProcess process);
  void reap();

 private:
  std::vector<ChildProcess> processes_;
};

// One process: a child of ours, or one that outlived its keeper. The destructor kills a child of ours and leaves it
// behind when that does not end it soon.
class Child {
 public:
  // Runs `program`, which may be any descriptor of an executable (also O_PATH, also of a file that has been replaced
  // since), as `argv`. `fds` as in SpawnOptions.
  static Result<Child> start(const Fd& program, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds);
  // `not_found` when there is no such process any more.
  static Result<Child> adopt(pid_t pid);

  Child(Child&&) = default;
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Readable once it has ended.
  [[nodiscard]] const Fd& pidfd() const { return pidfd_; }
  // Whether it has been killed, but one of its threads cannot end because the kernel makes it wait: for an answer that
  // only its successor can give, or for a store that does not answer.
  [[nodiscard]] bool dying() const;
  void kill() const;
  // Once it has ended. A process that only is dying is left behind.
  Ending reap(LeftBehind& left);
  // Kills it, whatever it does.
  void put_down(LeftBehind& left);

 private:
  Child(std::optional<ChildProcess> process, pid_t pid, Fd pidfd)
      : process_(std::move(process)), pid_(pid), pidfd_(std::move(pidfd)) {}
  std::optional<ChildProcess> process_;  // none: adopted
  pid_t pid_ = -1;
  Fd pidfd_;
};

}  // namespace dsec::keeper
