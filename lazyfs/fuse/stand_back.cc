// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/stand_back.h"

#include <sched.h>

#include <thread>

namespace dsec::fuse {

namespace {

// Of the calling thread.
bool set_class(int policy) {
  const sched_param priority{};
  return ::sched_setscheduler(0, policy, &priority) == 0;
}

}  // namespace

bool StandBack::is_possible() {
  static const bool possible = [] {
    bool works = false;
    // On a thread of its own: without CAP_SYS_NICE there is no way back.
    std::thread([&works] {
      works = ::sched_getscheduler(0) == SCHED_OTHER && set_class(SCHED_IDLE) && set_class(SCHED_OTHER);
    }).join();
    return works;
  }();
  return possible;
}

void StandBack::enter() { set_class(SCHED_IDLE); }

void StandBack::leave() { set_class(SCHED_OTHER); }

}  // namespace dsec::fuse
