// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/outcome.h"

#include <signal.h>

#include <cstring>

namespace dsec::launcher {

namespace {

constexpr int kTimeoutCode = 124;
constexpr int kInfraCode = 125;
constexpr int kNotExecutableCode = 126;
constexpr int kNotFoundCode = 127;
constexpr int kSignalBase = 128;

SandboxResult ended(int code, const char* cause, std::string message = {}) {
  SandboxResult result;
  result.exit_code = code;
  result.cause = cause;
  result.message = std::move(message);
  return result;
}

SandboxResult killed(int signal, const char* cause, std::string message = {}) {
  SandboxResult result = ended(kSignalBase + signal, cause, std::move(message));
  result.signal = signal;
  return result;
}

constexpr const char* kOomMessage = "killed at the memory limit";

SandboxResult judge_report(const Ending& ending) {
  const dsec_init_report& report = *ending.last;
  switch (report.event) {
    case DSEC_INIT_EXITED: return ended(report.value, "exit");
    case DSEC_INIT_SIGNALED:
      if (report.value == SIGKILL && ending.oom_kills > 0) return killed(SIGKILL, "oom", kOomMessage);
      return killed(report.value, "signal");
    case DSEC_INIT_NOT_EXECUTED:
      if (report.value == ENOENT) return ended(kNotFoundCode, "not_found", "the command was not found");
      return ended(kNotExecutableCode, "not_executable",
                   fmt::format("the command cannot be executed: {}", errno_text(report.value)));
    case DSEC_INIT_UNCONFINED:
      return infra_result("infra_runtime",
                          "crun did not install the system call filter; crun 1.8.1 and later can do it");
    default:
      return infra_result("infra_runtime",
                          fmt::format("process 1 of the sandbox failed: {}", errno_text(report.value)));
  }
}

// Process 1 had no last word: it never ran, or it was killed.
SandboxResult judge_silence(const Ending& ending) {
  if (ending.oom_kills > 0) return killed(SIGKILL, "oom", kOomMessage);
  if (ending.started) {
    return infra_result("infra_runtime", "the sandbox was killed from outside (its process 1 or crun)");
  }
  std::string why = ending.runtime_log;
  if (why.empty() && ending.runtime.signal != 0) why = fmt::format("killed by signal {}", ending.runtime.signal);
  if (why.empty()) why = fmt::format("ended with status {}", ending.runtime.code);
  return infra_result("infra_runtime", fmt::format("crun could not start the sandbox: {}", why));
}

SandboxResult judge_stop(const Ending& ending) {
  switch (ending.stop) {
    case Stop::deadline: {
      SandboxResult result = ended(kTimeoutCode, "timeout", "the deadline passed");
      result.timed_out = true;
      if (ending.last && ending.last->event == DSEC_INIT_SIGNALED) result.signal = ending.last->value;
      if (!ending.last || ending.last->event == DSEC_INIT_STARTED) result.signal = SIGKILL;
      return result;
    }
    case Stop::interrupted: return killed(SIGINT, "cancelled", "interrupted twice");
    case Stop::removed: return killed(SIGKILL, "cancelled", "the sandbox was removed");
    default: return killed(SIGKILL, "cancelled", "the client is gone");
  }
}

}  // namespace

SandboxResult infra_result(std::string cause, std::string message) {
  SandboxResult result = ended(kInfraCode, "", std::move(message));
  result.cause = std::move(cause);
  result.infra = true;
  return result;
}

SandboxResult judge(const Ending& ending) {
  SandboxResult result;
  if (ending.stop != Stop::none)
    result = judge_stop(ending);
  else if (ending.last && ending.last->event != DSEC_INIT_STARTED)
    result = judge_report(ending);
  else
    result = judge_silence(ending);
  result.oom_killed = ending.oom_kills > 0;
  return result;
}

}  // namespace dsec::launcher
