// SPDX-License-Identifier: Apache-2.0
// Child processes that are not forgotten.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

struct SpawnOptions {
  // argv; the first is looked up in $PATH when it holds no slash.
  std::vector<std::string> argv;
  // What to run when it is not what argv[0] says ("/proc/self/fd/9": from a descriptor of the child).
  std::string program;
  // Added to (or replacing in) our environment.
  std::vector<std::pair<std::string, std::string>> env;
  // Descriptors of the child: {ours, theirs}. 0, 1 and 2 that are not named are inherited; all others are closed.
  std::vector<std::pair<int, int>> fds;
  enum class Session { same, own } session = Session::same;  // own: setsid, so that no terminal signal reaches it
  enum class Group { same, own } group = Group::same;        // own: a process group of its own
};

// How a process ended: `code` when it exited, `signal` when it was killed.
struct ExitStatus {
  int code = 0;
  int signal = 0;
  [[nodiscard]] bool success() const { return code == 0 && signal == 0; }
};

// One child process. The destructor kills it (SIGKILL) and reaps it unless it was waited for or detached.
class ChildProcess {
 public:
  // `not_found` when the program does not exist.
  static Result<ChildProcess> spawn(const SpawnOptions& options);

  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~ChildProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  Result<ExitStatus> wait();
  // Nothing when it still runs after `timeout`.
  Result<std::optional<ExitStatus>> wait_for(std::chrono::milliseconds timeout);
  // It lives on without us.
  void detach() { pid_ = -1; }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

// What /proc/PID/stat says of a process (proc(5)).
struct ProcessFacts {
  std::uint64_t start_ticks = 0;  // since boot: with the number, it names a process and no later one
  // It has been killed, or ended, but is still there: a thread of it waits in the kernel for something that cannot be
  // interrupted, such as a file system that does not answer. It executes nothing of its own any more, and keeps its
  // descriptors until the kernel lets go of it.
  bool is_doomed = false;
  int processor = -1;  // where its first thread ran last
};
// Nothing when there is no such process. A number of a thread gives facts of that thread.
std::optional<ProcessFacts> facts_of_process(pid_t pid);

// Calls `ask` in a copy of this process (fork(2)), for what may hang in the kernel: a file system that does not answer,
// for example. `timeout` when there is no answer in time; the copy is then killed and left behind, with no descriptor
// of ours, and is gone once the kernel lets go of it. An answer of more than kMaxAnswerBytes is cut. Only the calling
// thread is in the copy, so `ask` must wait for no other one.
inline constexpr std::size_t kMaxAnswerBytes = 64 << 10;
Result<std::string> ask_apart(const std::function<std::string()>& ask, std::chrono::milliseconds patience);

// Runs a program to its end and returns its standard output (at most `limit` bytes; more is an error). A failing exit
// is `io` and carries the end of its standard error.
Result<std::string> run_program(const std::vector<std::string>& argv, std::size_t limit = 1u << 20);

}  // namespace dsec
