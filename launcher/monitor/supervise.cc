// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/supervise.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace dsec::launcher {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class Supervisor {
 public:
  explicit Supervisor(const Supervised& what) : what_(what), started_at_(steady_clock::now()) {}

  Result<SupervisedEnding> run() {
    while (true) {
      struct pollfd watched[] = {{what_.runtime.pidfd().get(), POLLIN, 0},
                                 {init_open_ ? what_.init.get() : -1, POLLIN, 0},
                                 {control_open_ ? what_.control.get() : -1, POLLIN, 0},
                                 {what_.requests.get(), POLLIN, 0}};
      if (::poll(watched, std::size(watched), time_left()) < 0 && errno != EINTR) return fail_sys(errno, "poll");
      if (watched[1].revents != 0) read_reports();
      if (watched[0].revents != 0) break;
      if (watched[2].revents != 0) read_control();
      if (watched[3].revents != 0) read_requests();
      TRY(check_time());
    }
    read_reports();
    ending_.runtime = TRY(what_.runtime.wait());
    return SupervisedEnding{ending_, started_at_};
  }

 private:
  [[nodiscard]] bool has_ended() const { return ending_.last && ending_.last->event != DSEC_INIT_STARTED; }

  // In milliseconds, as poll(2) takes it; rounded up, so that it does not spin.
  [[nodiscard]] int time_left() const {
    if (!next_) return -1;
    const auto left = std::chrono::ceil<milliseconds>(*next_ - steady_clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
  }

  Result<void> check_time() {
    if (!next_ || steady_clock::now() < *next_) return {};
    if (killed_)
      return fail(ErrorCode::timeout, "the sandbox does not die within {} s of being killed", kKillPatience.count());
    if (ending_.stop == Stop::none && !has_ended()) {
      ending_.stop = Stop::deadline;
      send(SIGTERM);
      next_ = steady_clock::now() + kKillGrace;
    } else {
      kill();
    }
    return {};
  }

  void read_reports() {
    dsec_init_report report{};
    ssize_t n = 0;
    while ((n = ::recv(what_.init.get(), &report, sizeof report, MSG_DONTWAIT)) == sizeof report) {
      // What comes after the deadline is still the truth about the command, but not about why it ended.
      ending_.last = report;
      if (report.event == DSEC_INIT_STARTED)
        on_started();
      else if (!killed_)
        next_ = steady_clock::now() + kKillGrace;  // the runtime should be gone in no time
    }
    if (n == 0) init_open_ = false;
  }

  void read_requests() {
    struct signalfd_siginfo info {};
    if (::read(what_.requests.get(), &info, sizeof info) > 0) stop(Stop::removed);
  }

  void on_started() {
    ending_.started = true;
    started_at_ = steady_clock::now();
    if (what_.timeout && !next_) next_ = started_at_ + *what_.timeout;
    what_.started();
  }

  void read_control() {
    std::uint8_t bytes[64];
    const ssize_t n = ::recv(what_.control.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      control_open_ = false;
      stop(Stop::client_gone);
      return;
    }
    for (ssize_t i = 0; i < n; ++i) {
      if (bytes[i] == SIGINT && ++interrupts_ > 1)
        stop(Stop::interrupted);
      else
        send(bytes[i]);
    }
  }

  // An order before process 1 runs waits in its socket.
  void send(int signal) {
    dsec_init_order order{signal, 0, 0};
    struct winsize size {};
    if (what_.terminal && signal == SIGWINCH && ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) {
      order.rows = size.ws_row;
      order.columns = size.ws_col;
    }
    ::send(what_.init.get(), &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void stop(Stop why) {
    if (killed_) return;
    if (ending_.stop == Stop::none && !has_ended()) ending_.stop = why;
    kill();
  }

  void kill() {
    killed_ = true;
    next_ = steady_clock::now() + kKillPatience;
    what_.kill_all();
    what_.runtime.kill();
  }

  const Supervised& what_;
  Ending ending_;
  steady_clock::time_point started_at_;
  std::optional<steady_clock::time_point> next_;  // when check_time() has something to do
  int interrupts_ = 0;
  bool init_open_ = true;
  bool control_open_ = true;
  bool killed_ = false;
};

}  // namespace

Result<SupervisedEnding> supervise(const Supervised& what) { return Supervisor(what).run(); }

}  // namespace dsec::launcher
