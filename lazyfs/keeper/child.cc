// SPDX-License-Identifier: Apache-2.0
#include "keeper/child.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "control/handover.h"

namespace dsec::keeper {

namespace {

constexpr std::chrono::milliseconds kDeathPatience{500};  // of one that has been killed

constexpr std::array kCrashSignals{SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGSYS, SIGTRAP};

Result<Fd> open_pidfd(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.valid()) return fail_sys(errno, fmt::format("watch process {}", pid));
  return fd;
}

Ending describe(const ExitStatus& status) {
  if (status.signal != 0) {
    const bool crashed = std::find(kCrashSignals.begin(), kCrashSignals.end(), status.signal) != kCrashSignals.end();
    return {fmt::format("killed by signal {} ({})", status.signal, ::sigabbrev_np(status.signal)), crashed};
  }
  return {fmt::format("exit status {}", status.code), status.code != 0};
}

}  // namespace

Result<Child> Child::start(const Fd& program, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds) {
  SpawnOptions options;
  options.argv = std::move(argv);
  options.program = fmt::format("/proc/self/fd/{}", control::kProgramFd);
  options.fds = std::move(fds);
  options.fds.emplace_back(program.get(), control::kProgramFd);
  ChildProcess process = TRY(ChildProcess::spawn(options));
  const pid_t pid = process.pid();
  Fd pidfd = TRY(open_pidfd(pid));
  return Child(std::move(process), pid, std::move(pidfd));
}

Result<Child> Child::adopt(pid_t pid) { return Child(std::nullopt, pid, TRY(open_pidfd(pid))); }

Child::~Child() {
  LeftBehind left;
  if (process_ && process_->pid() > 0) put_down(left);
}

bool Child::dying() const {
  const auto facts = facts_of_process(pid_);
  return facts && facts->is_doomed;
}

void Child::kill() const { ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0); }

Ending Child::reap(LeftBehind& left) {
  if (!process_) return {"it ended", false};
  const auto status = process_->wait_for(kDeathPatience);
  if (status && *status) return describe(**status);
  left.add(std::move(*process_));
  process_.reset();
  return {"killed; a thread of it is still waiting", false};
}

void Child::put_down(LeftBehind& left) {
  kill();
  reap(left);
  process_.reset();
}

LeftBehind::~LeftBehind() {
  for (ChildProcess& process : processes_) process.detach();
}

void LeftBehind::add(ChildProcess process) {
  log(LogLevel::warn, "lazyfsd_left_behind",
      {{"pid", std::to_string(process.pid())}, {"reason", "killed, but it waits for a store that does not answer"}});
  processes_.push_back(std::move(process));
}

void LeftBehind::reap() {
  std::erase_if(processes_, [](ChildProcess& process) {
    const auto status = process.wait_for(std::chrono::milliseconds(0));
    return status && *status;
  });
}

}  // namespace dsec::keeper
