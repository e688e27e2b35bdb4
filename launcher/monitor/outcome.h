// SPDX-License-Identifier: Apache-2.0
// What a run was: from what process 1, the runtime and the kernel say to the result that users see. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/process.h"
#include "launcher/init/protocol.h"
#include "launcher/sandbox.h"

namespace dsec::launcher {

// Why the monitor ended the sandbox before it ended by itself.
enum class Stop { none, deadline, interrupted, client_gone, removed };

struct Ending {
  bool started = false;                  // the command was executed
  std::optional<dsec_init_report> last;  // the last word of process 1, if it had one
  ExitStatus runtime;                    // how crun ended
  Stop stop = Stop::none;
  std::uint64_t oom_kills = 0;
  std::string runtime_log;  // crun's own words, the last line
};

// Sets exit_code, signal, timed_out, oom_killed, cause, infra and message; the rest is the caller's.
SandboxResult judge(const Ending& ending);

// A failure of ours.
SandboxResult infra_result(std::string cause, std::string message);

}  // namespace dsec::launcher
