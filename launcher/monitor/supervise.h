// SPDX-License-Identifier: Apache-2.0
// Watching one running sandbox until nothing of it runs any more.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/monitor/outcome.h"
#include "launcher/monitor/runtime.h"

namespace dsec::launcher {

struct Supervised {
  Runtime& runtime;
  const Fd& init;                                    // our end of process 1's socket
  const Fd& control;                                 // the client: one byte a signal, end of file when it is dead
  const Fd& requests;                                // a signalfd with SIGTERM: the sandbox is to be removed
  bool terminal;                                     // the command has one of its own, which follows the size of ours
  std::optional<std::chrono::milliseconds> timeout;  // from the start of the command
  std::function<void()> started;                     // called once, when the command was executed
  std::function<void()> kill_all;                    // SIGKILL to everything in the sandbox's cgroup
};

struct SupervisedEnding {
  Ending ending;                                     // without oom_kills and runtime_log
  std::chrono::steady_clock::time_point started_at;  // when the command was executed; when it ended if it never was
};

// Forwards signals, keeps the deadline, ends the sandbox when it must; returns when the runtime is gone. `timeout` when
// it does not go within kKillPatience of being killed.
Result<SupervisedEnding> supervise(const Supervised& what);
inline constexpr std::chrono::seconds kKillPatience{10};

}  // namespace dsec::launcher
