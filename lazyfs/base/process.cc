// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <set>

#include "base/text.h"

extern char** environ;

namespace dsec {

namespace {

// posix_spawn uses CLONE_VM|CLONE_VFORK, so its cost does not grow with our memory.
class SpawnSetup {
 public:
  SpawnSetup() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  void apply(const SpawnOptions& options) {
    add_descriptors(options.fds);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    if (options.session == SpawnOptions::Session::own) flags |= POSIX_SPAWN_SETSID;
    if (options.group == SpawnOptions::Group::own) flags |= POSIX_SPAWN_SETPGROUP;
    ::posix_spawnattr_setflags(&attributes_, flags);
  }

  posix_spawn_file_actions_t* actions() { return &actions_; }
  posix_spawnattr_t* attributes() { return &attributes_; }

 private:
  // Two rounds over spare numbers, so that a target that is also a source is not overwritten before it is read.
  void add_descriptors(const std::vector<std::pair<int, int>>& fds) {
    std::set<int> sources;
    std::set<int> targets{0, 1, 2};
    for (const auto& [ours, theirs] : fds) {
      sources.insert(ours);
      targets.insert(theirs);
    }
    std::vector<std::pair<int, int>> moved;
    int spare = 3;
    for (const auto& [ours, theirs] : fds) {
      while (sources.count(spare) > 0 || targets.count(spare) > 0) ++spare;
      ::posix_spawn_file_actions_adddup2(&actions_, ours, spare);
      moved.emplace_back(spare++, theirs);
    }
    for (const auto& [from, theirs] : moved) ::posix_spawn_file_actions_adddup2(&actions_, from, theirs);
    const int highest = *targets.rbegin();
    for (int fd = 3; fd < highest; ++fd) {
      if (targets.count(fd) == 0) ::posix_spawn_file_actions_addclose(&actions_, fd);
    }
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1);
  }

  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::vector<std::string> child_environment(const SpawnOptions& options) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced =
        std::any_of(options.env.begin(), options.env.end(), [&](const auto& pair) { return pair.first == name; });
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : options.env) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

ExitStatus decode(int status) {
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

}  // namespace

Result<ChildProcess> ChildProcess::spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return fail(ErrorCode::invalid, "a process needs a program to run");
  SpawnSetup setup;
  setup.apply(options);
  std::vector<std::string> argv = options.argv;
  std::vector<std::string> env = child_environment(options);
  pid_t pid = -1;
  const std::string& program = options.program.empty() ? argv[0] : options.program;
  const int error = ::posix_spawnp(&pid, program.c_str(), setup.actions(), setup.attributes(), pointers(argv).data(),
                                   pointers(env).data());
  if (error != 0) return fail_sys(error, fmt::format("start {}", argv[0]));
  return ChildProcess(pid);
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<ExitStatus> ChildProcess::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return fail_sys(errno, fmt::format("wait for process {}", pid_));
  }
  pid_ = -1;
  return decode(status);
}

Result<std::optional<ExitStatus>> ChildProcess::wait_for(std::chrono::milliseconds timeout) {
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!pidfd.valid()) return fail_sys(errno, fmt::format("watch process {}", pid_));
  struct pollfd entry {
    pidfd.get(), POLLIN, 0
  };
  constexpr std::int64_t kLongestPoll = INT_MAX;  // 24 days; after that it is as if the time were over
  const int ready = ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(timeout.count(), 0, kLongestPoll)));
  if (ready < 0 && errno != EINTR) return fail_sys(errno, fmt::format("watch process {}", pid_));
  if (ready <= 0) return std::optional<ExitStatus>();
  return std::optional<ExitStatus>(TRY(wait()));
}

std::optional<ProcessFacts> facts_of_process(pid_t pid) {
  constexpr std::uint64_t kMaxBytes = 4096;
  constexpr std::size_t kFlags = 6;  // counted from the state, which follows the name
  constexpr std::size_t kStartTicks = 19;
  constexpr std::size_t kProcessor = 36;
  constexpr std::size_t kPending = 28;           // of the first thread: a SIGKILL is there for each thread
  constexpr std::uint64_t kExiting = 0x4 | 0x8;  // PF_EXITING, PF_POSTCOREDUMP: include/linux/sched.h
  constexpr std::uint64_t kKilled = std::uint64_t{1} << (SIGKILL - 1);
  const auto bytes = read_file(fmt::format("/proc/{}/stat", pid), kMaxBytes);
  if (!bytes) return std::nullopt;
  const std::string_view text = as_text(*bytes);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 > text.size()) return std::nullopt;
  const auto words = split(text.substr(name_end + 2), ' ');
  if (words.size() <= kProcessor) return std::nullopt;
  std::array<std::uint64_t, 4> numbers{};
  constexpr std::array kWanted{kFlags, kStartTicks, kPending, kProcessor};
  for (std::size_t i = 0; i < kWanted.size(); ++i) {
    const std::string_view word = words[kWanted[i]];
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), numbers[i]);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  }
  const auto [flags, start_ticks, pending, processor] = numbers;
  return ProcessFacts{start_ticks, words[0] == "Z" || (flags & kExiting) != 0 || (pending & kKilled) != 0,
                      static_cast<int>(processor)};
}

namespace {

// In the copy: nothing is left open that somebody might wait for the end of.
[[noreturn]] void answer_apart(const std::function<std::string()>& ask, int write_end) {
  ::dup2(write_end, 0);
  ::close_range(1, ~0U, 0);
  const Fd out(0);
  [[maybe_unused]] const auto ignored = write_all(out, as_bytes(ask()));
  ::_exit(0);
}

}  // namespace

Result<std::string> ask_apart(const std::function<std::string()>& ask, std::chrono::milliseconds patience) {
  Pipe pipe = TRY(make_pipe());
  const pid_t pid = ::fork();
  if (pid < 0) return fail_sys(errno, "make a copy of this process");
  if (pid == 0) answer_apart(ask, pipe.write_end.get());
  pipe.write_end.reset();
  const auto until = std::chrono::steady_clock::now() + patience;
  std::string answer;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    struct pollfd polled {
      pipe.read_end.get(), POLLIN, 0
    };
    const int ready = ::poll(&polled, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX)));
    if (ready < 0 && errno == EINTR) continue;
    char buffer[4096];
    const ssize_t n = ready > 0 ? ::read(pipe.read_end.get(), buffer, sizeof buffer) : -1;
    if (n > 0 && answer.size() < kMaxAnswerBytes) answer.append(buffer, static_cast<std::size_t>(n));
    if (n > 0) continue;
    if (n < 0) ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, n < 0 ? WNOHANG : 0) < 0 && errno == EINTR) {
    }
    if (n < 0) return fail(ErrorCode::timeout, "no answer within {} ms", patience.count());
    return answer;
  }
}

Result<std::string> run_program(const std::vector<std::string>& argv, std::size_t limit) {
  Pipe out = TRY(make_pipe());
  Pipe err = TRY(make_pipe());
  SpawnOptions options;
  options.argv = argv;
  options.fds = {{out.write_end.get(), 1}, {err.write_end.get(), 2}};
  ChildProcess child = TRY(ChildProcess::spawn(options));
  out.write_end.reset();
  err.write_end.reset();

  std::string texts[2];
  struct pollfd polled[2] = {{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) return fail_sys(errno, "poll");
    for (int i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || (polled[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      char buffer[8192];
      const ssize_t n = ::read(polled[i].fd, buffer, sizeof buffer);
      if (n <= 0)
        polled[i].fd = -1;
      else
        texts[i].append(buffer, static_cast<std::size_t>(n));
    }
    if (texts[0].size() > limit) return fail(ErrorCode::invalid, "{} prints more than {} bytes", argv[0], limit);
    if (texts[1].size() > limit) texts[1].erase(0, texts[1].size() - limit);
  }
  const ExitStatus status = TRY(child.wait());
  if (!status.success()) return fail(ErrorCode::io, "{} failed with status {}: {}", argv[0], status.code, texts[1]);
  return texts[0];
}

}  // namespace dsec
