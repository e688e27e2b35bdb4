// SPDX-License-Identifier: Apache-2.0
#include "keeper/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/lock_file.h"
#include "base/log.h"
#include "base/paths.h"
#include "control/handover.h"
#include "control/wire.h"
#include "fuse/device.h"
#include "keeper/child.h"
#include "keeper/notify.h"

namespace dsec::keeper {

namespace {

using control::Handover;
using control::Signal;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{1000};
constexpr milliseconds kGoodbyeTick{50};  // readers wait for who comes next
constexpr milliseconds kStopPatience{10000};
// Before each attempt of a restart; the last one again and again until options.patience is over: a store that is away
// for less than that is no reason to fail readers.
constexpr std::array kPauses{milliseconds(0), milliseconds(50), milliseconds(200), milliseconds(800),
                             milliseconds(2000)};
constexpr std::size_t kMinAttempts = 3;  // however long one takes: it may have hung in a store
// A lazyfsd that crashes within kSoon of its start dies of what it was sent; after so many of these in a row the
// requests that were in flight each time are refused.
constexpr milliseconds kSoon{10000};
constexpr int kCrashesBeforeRefusal = 3;

Fd stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Result<Fd> open_program() { return open_file(sibling_program("lazyfsd"), O_PATH); }

class Keeper {
 public:
  explicit Keeper(KeeperOptions options) : options_(std::move(options)) {}

  Result<void> run() {
    signals_ = stop_signals();
    if (::chdir("/") != 0) return fail_sys(errno, "go to /");
    auto outcome = options_.begin == KeeperOptions::Begin::fresh ? begin() : adopt();
    log_file_.emplace(options_.dir / "lazyfsd.log");
    if (outcome) outcome = keep_running();
    if (lock_) end();
    return outcome;
  }

 private:
  enum class Event { nothing, stop_asked, ended, ready, beat, stopped, drained, hurried };

  Result<void> begin() {
    TRY(make_dirs(options_.dir));
    if (::chmod(options_.dir.c_str(), 0700) != 0)
      return fail_sys(errno, fmt::format("chmod {}", options_.dir.native()));
    auto lock = LockFile::try_take(lock_path());
    if (!lock && lock.error().code == ErrorCode::exists) {
      return fail(ErrorCode::exists, "another lazyfs-keeper or lazyfsd serves {}", options_.dir.native());
    }
    lock_.emplace(TRY(std::move(lock)));
    control::remove_what_was_left(options_.dir);  // of mounts that are gone
    TRY(mount());
    listener_ = TRY(control::listen_on(options_.dir / "control"));
    program_ = TRY(open_program());
    TRY(start(program_, Handover::InFlight::none));
    notify_ready();
    if (options_.ready_fd >= 0) {
      const Fd ready(options_.ready_fd);
      [[maybe_unused]] const auto ignored = write_all(ready, as_bytes("1"));  // nobody may be waiting any more
    }
    return {};
  }

  // Our parent is the lazyfsd whose keeper died; it gave us what that one had.
  Result<void> adopt() {
    const Handover handover = TRY(control::read_handover(Fd(control::kHandoverFd)));
    const auto resend = options_.resend;
    options_ = TRY(parse_options(handover.arguments));
    options_.resend = resend;
    const std::array fds{control::kPlainMountFd, control::kXattrMountFd};
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      devices_[i] = {handover.mountpoints[i], Fd(fds[i]), handover.inits[i]};
    }
    listener_ = Fd(control::kListenerFd);
    lock_.emplace(LockFile::inherited(Fd(control::kLockFd)));
    channel_ = Fd(control::kChannelFd);
    program_ = Fd(control::kProgramFd);
    for (int fd = control::kHandoverFd; fd <= control::kProgramFd; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    has_rings_ = handover.has_rings;
    restarts_ = handover.restarts;
    reason_ = handover.last_reason;
    child_.emplace(TRY(Child::adopt(handover.daemon)));
    started_at_ = last_beat_ = Clock::now();
    log(LogLevel::warn, "keeper_replaced", {{"lazyfsd", std::to_string(handover.daemon)}});
    return {};
  }

  Result<void> mount() {
    const std::array names{"mnt", "mnt-xattr"};
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const std::filesystem::path path = options_.dir / names[i];
      fuse::clear_stale_mount(path);
      TRY(make_dirs(path));
      devices_[i] = TRY(fuse::mount_device(path));
    }
    is_first_ = true;
    has_rings_ = false;
    return {};
  }

  void unmount() {
    for (fuse::Device& device : devices_) {
      if (!device.fd.valid()) continue;
      fuse::unmount_device(device.mountpoint);
      device.fd.reset();
    }
  }

  Result<void> keep_running() {
    while (true) {
      const Ending ending = watch();
      if (stop_asked_ || goodbye_ == Event::stopped) return {};
      TRY(bring_back(ending));
      if (stop_asked_) return {};
    }
  }

  // Until lazyfsd has ended.
  Ending watch() {
    bool hung = false;
    while (true) {
      const Event event = next_event(Clock::now() + kTick);
      if (event == Event::ended) break;
      if (event == Event::stop_asked || !directory_is_there()) return stop_daemon();
      const bool leaves = goodbye_ != Event::nothing;
      if (Clock::now() - last_beat_ > (leaves ? kStopPatience : options_.patience) && !hung) {
        hung = !leaves;
        child_->kill();
      }
    }
    Ending ending = child_->reap(left_behind_);
    child_.reset();
    if (hung) ending.reason = fmt::format("no sign of life for {} s", options_.patience.count() / 1000);
    if (goodbye_ != Event::nothing) ending = {"upgrade", false};
    return ending;
  }

  // Whoever removes it wants us gone: nobody can reach us any more.
  [[nodiscard]] bool directory_is_there() const { return ::access(lock_path().c_str(), F_OK) == 0; }
  [[nodiscard]] std::filesystem::path lock_path() const { return options_.dir / "lazyfsd.lock"; }

  Ending stop_daemon() {
    stop_asked_ = true;
    [[maybe_unused]] const auto ignored = control::send_signal(channel_, Signal::stop);
    const auto until = Clock::now() + kStopPatience;
    while (Clock::now() < until) {
      if (next_event(until) == Event::ended) return child_->reap(left_behind_);
    }
    child_->kill();
    unmount();  // a thread of it may wait for an answer of its own
    child_->put_down(left_behind_);
    return {"killed: it did not end when it was asked to", false};
  }

  // lazyfsd ended and nobody wanted that, or an upgrade did.
  Result<void> bring_back(const Ending& ending) {
    const bool drained = goodbye_ == Event::drained;
    crashes_ = ending.crashed && Clock::now() - started_at_ < kSoon ? crashes_ + 1 : 0;
    ++restarts_;
    reason_ = ending.reason;
    log(drained ? LogLevel::info : LogLevel::warn, "lazyfsd_ended",
        {{"reason", reason_}, {"restarts", std::to_string(restarts_)}});
    const auto again = crashes_ >= kCrashesBeforeRefusal ? Handover::InFlight::refuse : Handover::InFlight::serve;
    auto in_flight = drained ? Handover::InFlight::none : again;
    std::optional<Fd> next = goodbye_ != Event::nothing ? newest_program() : std::nullopt;
    const auto since = Clock::now();
    for (std::size_t attempt = 0;; ++attempt) {
      if (pause(kPauses[std::min(attempt, kPauses.size() - 1)]) == Event::stop_asked) return {};
      if (in_flight != Handover::InFlight::none || has_rings_) TRY(prepare_in_flight(in_flight));
      const auto started = start(next ? *next : program_, in_flight);
      if (started && next) program_ = std::move(*next);
      if (started || stop_asked_) return {};
      log(LogLevel::error, "lazyfsd_not_started", {{"reason", started.error().message}});
      if (next) {
        reason_ = fmt::format("upgrade failed, the program from before it serves: {}", started.error().message);
        next.reset();
      }
      in_flight = again;  // it may have taken some before it died
      if (attempt + 1 >= kMinAttempts && Clock::now() - since >= options_.patience) {
        return fail(ErrorCode::unavailable, "lazyfsd cannot be started any more, readers get an error: {}",
                    started.error().message);
      }
    }
  }

  std::optional<Fd> newest_program() {
    auto program = open_program();
    if (program) return std::move(*program);
    log(LogLevel::error, "upgrade_without_program", {{"reason", program.error().message}});
    return std::nullopt;
  }

  // Where the kernel cannot send requests again, those that a dead lazyfsd had taken would never be answered. Nor would
  // any, where it had them through its rings.
  Result<void> prepare_in_flight(Handover::InFlight& in_flight) {
    const bool can = options_.resend == KeeperOptions::Resend::when_offered && fuse::can_resend(devices_[0].init);
    if (can && !has_rings_) return {};
    log(LogLevel::error, "remounted",
        {{"reason",
          fmt::format("{} cannot be gone on with: readers of the old mounts get ENOTCONN, sandboxes and bind "
                      "mounts on them must be started again",
                      has_rings_ ? "transport = \"io_uring\"" : "requests of this kernel (before Linux 6.9)")}});
    unmount();
    in_flight = Handover::InFlight::none;
    return mount();
  }

  // Returns when it is ready.
  Result<void> start(const Fd& program, Handover::InFlight in_flight) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return fail_sys(errno, "make a channel");
    channel_ = Fd(ends[0]);
    const Fd theirs(ends[1]);
    const Fd handover = TRY(control::write_handover(describe(in_flight)));
    std::vector<std::string> argv{sibling_program("lazyfsd").native(), "--handover-fd",
                                  std::to_string(control::kHandoverFd)};
    argv.insert(argv.end(), options_.arguments.begin(), options_.arguments.end());
    goodbye_ = Event::nothing;
    is_first_ = false;
    child_.emplace(TRY(Child::start(program, std::move(argv),
                                    {{handover.get(), control::kHandoverFd},
                                     {listener_.get(), control::kListenerFd},
                                     {lock_->fd().get(), control::kLockFd},
                                     {theirs.get(), control::kChannelFd},
                                     {devices_[0].fd.get(), control::kPlainMountFd},
                                     {devices_[1].fd.get(), control::kXattrMountFd}})));
    return wait_until_ready();
  }

  Handover describe(Handover::InFlight in_flight) const {
    Handover handover;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      handover.mountpoints[i] = devices_[i].mountpoint;
      handover.inits[i] = devices_[i].init;
    }
    handover.arguments = options_.arguments;
    handover.in_flight = in_flight;
    handover.is_first = is_first_;
    handover.keeper = ::getpid();
    handover.restarts = restarts_;
    handover.last_reason = reason_;
    return handover;
  }

  Result<void> wait_until_ready() {
    started_at_ = last_beat_ = Clock::now();
    const auto until = started_at_ + options_.start_patience;
    while (true) {
      const Event event = next_event(until);
      if (event == Event::ready) return {};
      if (event == Event::stop_asked) {
        stop_daemon();
        child_.reset();
        return fail(ErrorCode::unavailable, "asked to stop");
      }
      if (event == Event::ended) {
        const Ending ending = child_->reap(left_behind_);
        child_.reset();
        return fail(ErrorCode::unavailable, "lazyfsd ended before it was ready: {}", ending.reason);
      }
      if (Clock::now() < until) continue;
      child_->put_down(left_behind_);
      child_.reset();
      return fail(ErrorCode::timeout, "lazyfsd was not ready after {} s", options_.start_patience.count() / 1000);
    }
  }

  Event pause(milliseconds length) {
    const auto until = Clock::now() + length;
    while (Clock::now() < until) {
      if (next_event(until) == Event::stop_asked) {
        stop_asked_ = true;
        return Event::stop_asked;
      }
    }
    return Event::nothing;
  }

  // The next thing that happens before `until`. What lazyfsd says comes before its end.
  Event next_event(Clock::time_point until) {
    std::array<pollfd, 3> polled{pollfd{channel_.get(), POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0},
                                 pollfd{child_ ? child_->pidfd().get() : -1, POLLIN, 0}};
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    const auto longest = goodbye_ == Event::nothing ? kTick : kGoodbyeTick;
    left_behind_.reap();
    if (log_file_) log_file_->tend(LogFile::Role::rotates);
    const int ready =
        ::poll(polled.data(), polled.size(), static_cast<int>(std::clamp(left, milliseconds(0), longest).count()));
    if (ready <= 0) return child_ && child_->dying() ? last_words() : Event::nothing;
    if (polled[0].revents != 0) {
      if (const Event said = hear(); said != Event::nothing) return said;
    }
    if (polled[1].revents != 0) {
      signalfd_siginfo info{};
      [[maybe_unused]] const ssize_t ignored = ::read(signals_.get(), &info, sizeof info);
      return Event::stop_asked;
    }
    return polled[2].revents != 0 ? last_words() : Event::nothing;
  }

  // Of one that has ended: it may have spoken after we listened.
  Event last_words() {
    const Event said = hear();
    return said == Event::nothing ? Event::ended : said;
  }

  Event hear() {
    char byte = 0;
    const ssize_t n = ::recv(channel_.get(), &byte, 1, MSG_DONTWAIT);
    if (n <= 0) {
      channel_.reset();  // closed: its end follows
      return Event::nothing;
    }
    last_beat_ = Clock::now();
    switch (static_cast<Signal>(byte)) {
      case Signal::ready: return Event::ready;
      case Signal::stopped: return goodbye_ = Event::stopped;
      case Signal::drained: return goodbye_ = Event::drained;
      case Signal::hurried: return goodbye_ = Event::hurried;
      case Signal::rings: has_rings_ = true; return Event::beat;
      default: return Event::beat;
    }
  }

  // Leaves nothing behind.
  void end() {
    unmount();
    if (child_) child_->put_down(left_behind_);
    child_.reset();
    control::remove_what_was_left(options_.dir);
    std::error_code ignored;
    if (listener_.valid()) std::filesystem::remove(options_.dir / "control", ignored);
    // Whoever was left behind has copies of both: clients would wait there, and no other keeper could start.
    if (listener_.valid()) ::shutdown(listener_.get(), SHUT_RDWR);
    lock_->release();
  }

  KeeperOptions options_;
  Fd signals_;
  std::optional<LockFile> lock_;
  std::array<fuse::Device, 2> devices_;  // plain, with xattrs
  bool is_first_ = false;                // nobody has answered their INIT
  bool has_rings_ = false;               // whoever serves them does so through io_uring
  Fd listener_;
  Fd program_;  // one that has served
  Fd channel_;
  std::optional<Child> child_;
  LeftBehind left_behind_;
  std::optional<LogFile> log_file_;
  Clock::time_point started_at_;
  Clock::time_point last_beat_;
  Event goodbye_ = Event::nothing;  // what lazyfsd said it ends for
  bool stop_asked_ = false;
  int crashes_ = 0;
  std::uint64_t restarts_ = 0;
  std::string reason_;
};

}  // namespace

Result<void> keep(KeeperOptions options) { return Keeper(std::move(options)).run(); }

}  // namespace dsec::keeper
