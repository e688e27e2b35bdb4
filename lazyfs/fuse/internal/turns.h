// SPDX-License-Identifier: Apache-2.0
// Who reads requests: one thread at a time while that is enough, more when requests pile up.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/waiting.h"

namespace dsec::fuse {

// Turns at reading the FUSE descriptor. A thread that has a turn reads a request and, when it is a short one, answers
// it and reads the next: no other thread is woken. Before it waits for anything it gives the turn to the next one. So
// one thread can poll for a while instead of sleeping, which several threads in read(2) would spoil: the kernel wakes
// one of those for every request. Thread-safe.
class Turns {
 public:
  // At most `most` threads read at the same time; at first one.
  explicit Turns(unsigned most) : most_(most) {}

  // Waits for a turn. False once stopped.
  bool take();
  // Gives it back and wakes a thread that waits for one.
  void give();
  // Gives it back when others read as well, late ones not counted; false when the caller is the only one and must go
  // on.
  bool give_if_spare();
  // A further thread may read, since requests wait.
  void widen();
  // One more, whatever the bound, for one that is not given back in time; it ends with the next give().
  void lend();
  // Ends every take(), for ever.
  void stop();

 private:
  const unsigned most_;
  std::mutex mutex_;
  std::condition_variable freed_;
  unsigned free_ = 1;
  unsigned total_ = 1;
  unsigned lent_ = 0;
  unsigned waiting_ = 0;
  bool stopped_ = false;
};

// A thread's turn. It is given up when the thread is about to wait (base/waiting.h).
class Turn final : public WaitObserver {
 public:
  // The caller has taken it.
  explicit Turn(Turns& turns) : turns_(turns) {}
  ~Turn() override { give_up(); }

  [[nodiscard]] bool is_held() const { return held_; }
  void give_up() {
    if (std::exchange(held_, false)) turns_.give();
  }
  // As Turns::give_if_spare().
  bool give_up_if_spare() {
    if (held_ && turns_.give_if_spare()) held_ = false;
    return !held_;
  }
  void about_to_wait() override { give_up(); }

 private:
  Turns& turns_;
  bool held_ = true;
};

// How long a reader polls before it sleeps. Waking an idle processor costs the client tens of microseconds a request,
// in a virtual machine more; polling for about as long as the next request takes to come saves that. It pays only while
// requests follow each other closely: after kMaxMisses waits in vain it stops until one comes that soon again. Others
// may use it at the same time: what they lose is a little accuracy.
class SpinBudget {
 public:
  using Clock = std::chrono::steady_clock;
  explicit SpinBudget(std::chrono::microseconds longest) : longest_(longest) {}

  [[nodiscard]] std::chrono::microseconds now() const {
    return misses_ < kMaxMisses ? longest_ : std::chrono::microseconds(0);
  }
  // A request came `waited` after a reader was ready for it.
  void arrived(Clock::duration waited) {
    if (waited <= longest_)
      misses_ = 0;
    else if (misses_ < kMaxMisses)
      ++misses_;
  }

 private:
  static constexpr unsigned kMaxMisses = 4;
  std::chrono::microseconds longest_;
  std::atomic<unsigned> misses_ = kMaxMisses;
};

}  // namespace dsec::fuse
