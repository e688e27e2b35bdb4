// SPDX-License-Identifier: Apache-2.0
// Serving a single busy caller from its own processor.
#pragma once

#include <sys/types.h>

#include "fuse/internal/stand_back.h"

namespace dsec::fuse {

// While all requests that a thread reads come from one other thread, which walks a tree or reads file after file, the
// two take turns: neither has anything to do while the other works. On two processors each answer and each request
// wakes a processor, which takes longer than most answers. So after kStreak such requests the thread moves to the
// processor of the caller and stands back when it wakes it. With the first request of somebody else it is everywhere
// again. For the thread that made it.
class CallerFollower {
 public:
  CallerFollower() = default;
  ~CallerFollower() { stop(); }
  CallerFollower(const CallerFollower&) = delete;
  CallerFollower& operator=(const CallerFollower&) = delete;

  // A request of the thread `caller` was read; 0: of one that cannot be seen from here.
  void note(pid_t caller);
  void stop();
  [[nodiscard]] bool is_following() const { return processor_ >= 0; }

  // What the calling thread has while it follows; null otherwise.
  static StandBack* stand_back();

 private:
  static constexpr unsigned kStreak = 32;
  static constexpr unsigned kLookAgain = 64;  // requests after which the caller may have moved

  void follow();

  pid_t caller_ = 0;
  unsigned streak_ = 0;
  int processor_ = -1;
  StandBack stand_back_;
};

}  // namespace dsec::fuse
