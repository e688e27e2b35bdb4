// SPDX-License-Identifier: Apache-2.0
#include "launcher/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <deque>

#include "base/fd.h"
#include "base/guarded.h"
#include "base/paths.h"
#include "base/process.h"
#include "launcher/internal/monitor_protocol.h"
#include "launcher/internal/require_root.h"
#include "launcher/internal/signal_relay.h"
#include "launcher/internal/spec_json.h"
#include "launcher/internal/state.h"
#include "launcher/internal/sweep.h"

namespace dsec {

namespace {

namespace fs = std::filesystem;
using namespace launcher;  // NOLINT(google-build-using-namespace): this file is its front

constexpr std::uint64_t kMaxResult = 1u << 20;

Result<fs::path> current_directory() {
  std::error_code error;
  fs::path here = fs::current_path(error);
  if (error) return fail_sys(error.value(), "find the current directory");
  return here;
}

// A specification as the monitor needs it: with an id and absolute paths that exist.
Result<SandboxSpec> complete(SandboxSpec spec) {
  if (spec.lower_mount >= 0) spec.lowers = {fmt::format("/proc/self/fd/{}", kLowerMountFd)};
  TRY(validate_spec(spec));
  if (spec.id.empty()) spec.id = new_sandbox_id();
  const fs::path here = TRY(current_directory());
  for (fs::path& lower : spec.lowers) {
    lower = here / lower;
    std::error_code error;
    if (spec.lower_mount < 0 && !fs::is_directory(lower, error))
      return fail(ErrorCode::not_found, "there is no directory {}", lower.native());
  }
  for (Volume& volume : spec.volumes) {
    volume.source = here / volume.source;
    if (::access(volume.source.c_str(), F_OK) != 0) {
      return fail(ErrorCode::not_found, "the source {} of the volume at {} does not exist", volume.source.native(),
                  volume.target);
    }
  }
  if (!spec.writable_root.empty()) spec.writable_root = (here / spec.writable_root).lexically_normal();
  if (spec.tty == SandboxSpec::Tty::yes && ::isatty(spec.stdio.in) == 0) {
    return fail(ErrorCode::invalid, "a terminal was asked for, but standard input is none");
  }
  return spec;
}

// The terminal's settings, put back whatever happens to the runtime, which makes it raw.
class SavedTerminal {
 public:
  explicit SavedTerminal(int fd) : fd_(::tcgetattr(fd, &settings_) == 0 ? fd : -1) {}
  ~SavedTerminal() {
    if (fd_ >= 0) ::tcsetattr(fd_, TCSADRAIN, &settings_);
  }
  SavedTerminal(const SavedTerminal&) = delete;
  SavedTerminal& operator=(const SavedTerminal&) = delete;

 private:
  struct termios settings_ {};
  int fd_;
};

struct Channel {
  Fd ours;
  Fd theirs;
};

Result<Channel> make_control() {
  int fds[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return fail_sys(errno, "socketpair");
  return Channel{Fd(fds[0]), Fd(fds[1])};
}

Result<Fd> in_memory(std::string_view text) {
  Fd file(::memfd_create("dsec-spec", MFD_CLOEXEC));
  if (!file.valid()) return fail_sys(errno, "memfd_create");
  TRY(write_all(file, as_bytes(text)));
  return file;
}

Result<std::string> read_to_end(const Fd& pipe) {
  std::string text;
  std::uint8_t buffer[4096];
  while (text.size() <= kMaxResult) {
    // Signals come meanwhile, which a handler relays. The thread sanitizer runs handlers during poll(2), not during
    // read(2).
    pollfd readable{pipe.get(), POLLIN, 0};
    while (::poll(&readable, 1, -1) < 0 && errno == EINTR) {
    }
    const std::size_t n = TRY(read_some(pipe, buffer));
    if (n == 0) break;
    text.append(reinterpret_cast<const char*>(buffer), n);
  }
  return text;
}

Result<ChildProcess> spawn_monitor(const SandboxSpec& spec, const Fd& document, const Fd& result, const Fd& control) {
  SpawnOptions options;
  options.argv = {sibling_program("dsec-monitor"), spec.id};
  options.fds = {{spec.stdio.in, 0},        {spec.stdio.out, 1},       {spec.stdio.err, 2},
                 {document.get(), kSpecFd}, {result.get(), kResultFd}, {control.get(), kControlFd}};
  if (spec.lower_mount >= 0) options.fds.push_back({spec.lower_mount, kLowerMountFd});
  // Without a terminal of its own the sandbox gets a terminal's signals through us alone; with one the runtime must be
  // in the foreground to use ours.
  if (spec.tty == SandboxSpec::Tty::no) options.group = SpawnOptions::Group::own;
  return ChildProcess::spawn(options);
}

// The monitor died without an answer: we do its cleaning.
SandboxResult monitor_lost(const SandboxSpec& spec, std::string why) {
  SandboxResult result;
  result.id = spec.id;
  result.cause = "infra_monitor";
  result.infra = true;
  result.message = std::move(why);
  if (const Result<void> swept = sweep_one(spec.id); !swept) {
    result.message += fmt::format("; and what it left could not be removed: {}", swept.error().message);
  }
  return result;
}

// Monitors that have answered and only delete files still. They outlive us if need be.
constexpr std::size_t kMaxFinishing = 64;

Guarded<std::deque<ChildProcess>>& finishing() {
  static auto* instance = new Guarded<std::deque<ChildProcess>>();  // never destroyed: that would kill them
  return *instance;
}

// Reaps those that have ended, and waits for the oldest while there are more than `allowed`.
void reap_finished(std::size_t allowed) {
  auto monitors = finishing().lock();
  std::erase_if(*monitors, [](ChildProcess& monitor) {
    const Result<std::optional<ExitStatus>> ended = monitor.wait_for(std::chrono::milliseconds(0));
    return ended && *ended;
  });
  while (monitors->size() > allowed) {
    std::ignore = monitors->front().wait();
    monitors->pop_front();
  }
}

void finish_later(ChildProcess monitor) { finishing().lock()->push_back(std::move(monitor)); }

}  // namespace

void wait_for_removals() { reap_finished(0); }

Result<SandboxResult> run_sandbox(const SandboxSpec& wanted) {
  TRY(require_root());
  const SandboxSpec spec = TRY(complete(wanted));
  TRY(make_sandboxes_dir());
  sweep_now_and_then();
  reap_finished(kMaxFinishing);

  const std::string created_at = now_rfc3339();
  const Fd document = TRY(in_memory(TRY(spec_to_json(spec, created_at))));
  Pipe answer = TRY(make_pipe());
  Channel control = TRY(make_control());
  const SavedTerminal terminal(spec.tty == SandboxSpec::Tty::yes ? spec.stdio.in : -1);
  std::optional<SignalRelay> relay;
  if (spec.signals == SandboxSpec::Signals::forward) relay.emplace(TRY(SignalRelay::to(control.ours.get())));

  ChildProcess monitor =
      TRY_IN("start the sandbox's monitor", spawn_monitor(spec, document, answer.write_end, control.theirs));
  answer.write_end.reset();
  control.theirs.reset();
  const std::string text = TRY(read_to_end(answer.read_end));
  if (!text.empty()) {
    finish_later(std::move(monitor));
    return result_from_json(text);
  }
  const ExitStatus ended = TRY(monitor.wait());
  return monitor_lost(spec, ended.signal != 0
                                ? fmt::format("the sandbox's monitor was killed by signal {}", ended.signal)
                                : fmt::format("the sandbox's monitor ended with status {}", ended.code));
}

}  // namespace dsec
