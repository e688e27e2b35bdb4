// SPDX-License-Identifier: Apache-2.0
// Starting crun inside a cgroup.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"
#include "launcher/internal/cgroup.h"

namespace dsec::launcher {

struct RuntimeLaunch {
  std::filesystem::path program;  // crun
  std::filesystem::path state;    // its --root
  std::filesystem::path bundle;   // the directory of config.json
  std::filesystem::path pid_file;
  std::filesystem::path log;
  std::string id;
};

// A child of ours, watched through a pidfd (readable when it has ended). The destructor kills and reaps it.
class Runtime {
 public:
  // `crun run` as a member of the groups from before its first instruction on, so that all it does is accounted and
  // limited; with `socket` as descriptor DSEC_INIT_SOCKET, handed to process 1. It is killed when we die. The child
  // takes part in our session and process group. An error says which step failed.
  static Result<Runtime> launch(const RuntimeLaunch& launch, const CgroupJoin& join, const Fd& socket);

  Runtime(Runtime&& other) noexcept : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}
  Runtime& operator=(Runtime&&) = delete;
  ~Runtime();

  [[nodiscard]] const Fd& pidfd() const { return pidfd_; }
  void kill() const;
  Result<ExitStatus> wait();

 private:
  Runtime(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  pid_t pid_;
  Fd pidfd_;
};

// `name` as an executable file: beside our program, else in $PATH. `not_found` says what to install.
Result<std::filesystem::path> find_program(const std::string& name, std::string_view package);

}  // namespace dsec::launcher
