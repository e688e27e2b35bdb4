// SPDX-License-Identifier: Apache-2.0
// Letting whoever is woken stay on the processor of the thread that wakes it.
#pragma once

#include <cerrno>
#include <chrono>

namespace dsec::fuse {

// Linux puts a thread that wakes up on an idle processor, if there is one (kernel/sched/fair.c, select_idle_sibling): a
// caller that gets its answer from a server on its own processor would be sent to another, which has to leave its sleep
// first, and then to the next one with every request. A processor counts as idle when all that runs there is of the
// class SCHED_IDLE. So the server is of that class while it wakes the caller, and of its own one before and after.
// Where others compete for the processor it has to wait for its turn to go on, each time; a caller that computes for a
// while before it asks again looks the same, but not each time. So when many of the last waits were long it lets it be
// for some time. One for each thread.
class StandBack {
 public:
  // Whether this process may change the class of its threads back and forth. Tried once.
  static bool is_possible();

  // Calls `wake`, which wakes a caller.
  template <typename Wake>
  auto while_waking(Wake wake) {
    const Clock::time_point start = Clock::now();
    if (start < resume_ || !is_possible()) return wake();
    enter();
    const auto result = wake();
    const int error = errno;
    leave();
    errno = error;
    note(Clock::now(), start);
    return result;
  }
  [[nodiscard]] bool is_paused() const { return Clock::now() < resume_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLong{1};
  static constexpr std::chrono::milliseconds kPause{100};
  // A long wait adds to the score, a short one takes one off.
  static constexpr unsigned kOfLong = 8;
  static constexpr unsigned kTooMuch = 4 * kOfLong;

  void note(Clock::time_point now, Clock::time_point start) {
    if (now - start <= kLong) {
      if (score_ > 0) --score_;
      return;
    }
    score_ += kOfLong;
    if (score_ < kTooMuch) return;
    score_ = 0;
    resume_ = now + kPause;
  }
  static void enter();
  static void leave();

  unsigned score_ = 0;
  Clock::time_point resume_{};
};

}  // namespace dsec::fuse
