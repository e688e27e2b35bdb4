// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/runtime.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/paths.h"
#include "base/text.h"
#include "launcher/init/protocol.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

struct Failure {
  char step[32];
  int error;
};

// All that the child needs, prepared before it exists: it only makes system calls.
struct ChildPlan {
  std::vector<char*> argv;
  const CgroupJoin* join;
  int socket;
  int failure_pipe;
  pid_t parent;
};

[[noreturn]] void fail_child(const ChildPlan& plan, std::string_view step) {
  Failure failure{};
  failure.error = errno;
  step.copy(failure.step, sizeof failure.step - 1);
  [[maybe_unused]] const ssize_t ignored = ::write(plan.failure_pipe, &failure, sizeof failure);
  ::_exit(125);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(125);  // it died before we asked to be told
  for (const Fd& tasks : plan.join->tasks) {
    if (::write(tasks.get(), "0", 1) != 1) fail_child(plan, "join the cgroup");
  }
  // dup2 also clears close-on-exec, unless it is the same number already.
  if (plan.socket == DSEC_INIT_SOCKET ? ::fcntl(plan.socket, F_SETFD, 0) != 0
                                      : ::dup2(plan.socket, DSEC_INIT_SOCKET) < 0) {
    fail_child(plan, "pass the socket");
  }
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(plan.argv[0], plan.argv.data());
  fail_child(plan, "execute crun");
}

// clone3(2) rather than fork: into the group at birth (version 2), and with a pidfd.
pid_t clone_child(const CgroupJoin& join, int& pidfd) {
  struct clone_args args {};
  args.flags = CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  if (join.into.valid()) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<__u64>(join.into.get());
  }
  return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
}

std::vector<std::string> command_line(const RuntimeLaunch& launch) {
  return {launch.program,  "--cgroup-manager=disabled",
          "--log",         launch.log,
          "--root",        launch.state,
          "run",           "--bundle",
          launch.bundle,   "--pid-file",
          launch.pid_file, fmt::format("--preserve-fds={}", DSEC_INIT_SOCKET - 2),
          launch.id};
}

}  // namespace

Result<Runtime> Runtime::launch(const RuntimeLaunch& launch, const CgroupJoin& join, const Fd& socket) {
  Pipe failures = TRY(make_pipe());
  std::vector<std::string> words = command_line(launch);
  ChildPlan plan{{}, &join, socket.get(), failures.write_end.get(), ::getpid()};
  for (std::string& word : words) plan.argv.push_back(word.data());
  plan.argv.push_back(nullptr);
  // DSEC_INIT_SOCKET may be the number of the pipe; then the child would lose it.
  if (plan.failure_pipe == DSEC_INIT_SOCKET) return fail(ErrorCode::internal, "descriptor 3 is taken");

  int pidfd = -1;
  const pid_t pid = clone_child(join, pidfd);
  if (pid < 0) return fail_sys(errno, "start crun (clone3)");
  if (pid == 0) run_child(plan);
  Runtime runtime(pid, Fd(pidfd));
  failures.write_end.reset();
  Failure failure{};
  const std::size_t n = TRY(read_some(failures.read_end, {reinterpret_cast<std::uint8_t*>(&failure), sizeof failure}));
  if (n == sizeof failure) return fail_sys(failure.error, failure.step);
  return runtime;
}

Runtime::~Runtime() {
  if (pid_ <= 0) return;
  kill();
  ::waitpid(pid_, nullptr, 0);
}

void Runtime::kill() const { ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0); }

Result<ExitStatus> Runtime::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return fail_sys(errno, "wait for crun");
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) return ExitStatus{128 + WTERMSIG(status), WTERMSIG(status)};
  return ExitStatus{WEXITSTATUS(status), 0};
}

Result<fs::path> find_program(const std::string& name, std::string_view package) {
  const fs::path beside = sibling_program(name);
  if (beside.is_absolute()) return beside;
  const char* path = std::getenv("PATH");
  for (const std::string_view dir : split(path != nullptr ? path : "/usr/sbin:/usr/bin:/sbin:/bin", ':')) {
    const fs::path file = fs::path(dir) / name;
    if (file.is_absolute() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return fail(ErrorCode::not_found, "{} is neither in $PATH nor beside dsec-monitor: install {}", name, package);
}

}  // namespace dsec::launcher
