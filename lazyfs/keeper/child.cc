// SPDX-License-Identifier: Apache-2.0
#include "keeper/child.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "control/handover.h"

namespace dsec::keeper {

namespace {

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

bool Child::dying() const {
  constexpr std::uint64_t kMaxBytes = 4096;
  const auto bytes = read_file(fmt::format("/proc/{}/stat", pid_), kMaxBytes);
  if (!bytes) return false;
  const std::string_view text = as_text(*bytes);
  const std::size_t name_end = text.rfind(')');
  return name_end + 2 < text.size() && text[name_end + 2] == 'Z';
}

void Child::kill() const { ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0); }

Ending Child::reap() {
  if (!process_) return {"it ended", false};
  const auto status = process_->wait_for(std::chrono::milliseconds(0));
  if (status && *status) return describe(**status);
  process_->detach();
  return {"killed; a thread of it is still waiting", false};
}

}  // namespace dsec::keeper
