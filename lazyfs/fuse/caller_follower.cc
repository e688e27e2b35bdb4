// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/caller_follower.h"

#include <sched.h>
#include <unistd.h>

#include <cstring>

#include "base/process.h"

namespace dsec::fuse {

namespace {

thread_local StandBack* current = nullptr;

// Where it ran last; -1 when that cannot be told.
int processor_of(pid_t thread) {
  const auto facts = facts_of_process(thread);
  return facts && facts->processor < CPU_SETSIZE ? facts->processor : -1;
}

// All that this process may use, as its first thread has it.
cpu_set_t all_processors() {
  static const cpu_set_t all = [] {
    cpu_set_t set;
    if (::sched_getaffinity(::getpid(), sizeof set, &set) != 0) std::memset(&set, 0xff, sizeof set);
    return set;
  }();
  return all;
}

}  // namespace

StandBack* CallerFollower::stand_back() { return current; }

void CallerFollower::note(pid_t caller) {
  if (caller == 0 || caller != caller_ || (is_following() && stand_back_.is_paused())) {
    stop();
    caller_ = caller;
    streak_ = 0;
    return;
  }
  ++streak_;
  if (streak_ == kStreak || streak_ % kLookAgain == 0) follow();
}

void CallerFollower::follow() {
  const int processor = StandBack::is_possible() ? processor_of(caller_) : -1;
  if (processor == processor_) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  if (processor >= 0) CPU_SET(static_cast<unsigned>(processor), &one);
  const cpu_set_t all = all_processors();
  if (processor < 0 || !CPU_ISSET(static_cast<unsigned>(processor), &all) ||
      ::sched_setaffinity(0, sizeof one, &one) != 0) {
    return stop();
  }
  processor_ = processor;
  current = &stand_back_;
}

void CallerFollower::stop() {
  if (processor_ < 0) return;
  const cpu_set_t all = all_processors();
  ::sched_setaffinity(0, sizeof all, &all);
  processor_ = -1;
  current = nullptr;
}

}  // namespace dsec::fuse
