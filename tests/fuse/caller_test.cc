// SPDX-License-Identifier: Apache-2.0
// Serving from the caller's processor: where a thread is, and of which class, before, while and after.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "fuse/internal/caller_follower.h"
#include "support/skip.h"

namespace dsec::fuse {
namespace {

int processors_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  return CPU_COUNT(&set);
}

// On a thread of its own, so that nothing stays with the test program's.
template <typename Body>
void on_a_thread(Body body) {
  std::thread(body).join();
}

#define NEED_STANDING_BACK() \
  if (!StandBack::is_possible()) SKIP_TEST("changing the class of a thread back needs CAP_SYS_NICE")

TEST_CASE("a thread that stands back is of the idle class only meanwhile, and result and errno pass") {
  NEED_STANDING_BACK();
  on_a_thread([] {
    StandBack stand_back;
    int meanwhile = -1;
    const int result = stand_back.while_waking([&] {
      meanwhile = ::sched_getscheduler(0);
      errno = ENOENT;
      return 7;
    });
    CHECK(result == 7);
    CHECK(errno == ENOENT);
    CHECK(meanwhile == SCHED_IDLE);
    CHECK(::sched_getscheduler(0) == SCHED_OTHER);
  });
}

int wait_long() {
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  return 0;
}

int class_while_waking(StandBack& stand_back) {
  return stand_back.while_waking([] { return ::sched_getscheduler(0); });
}

TEST_CASE("who has to wait again and again while it stands back does not for some time") {
  NEED_STANDING_BACK();
  on_a_thread([] {
    StandBack stand_back;
    stand_back.while_waking(wait_long);
    CHECK(class_while_waking(stand_back) == SCHED_IDLE);  // once is nothing
    for (int i = 0; i < 4; ++i) stand_back.while_waking(wait_long);
    CHECK(stand_back.is_paused());
    CHECK(class_while_waking(stand_back) == SCHED_OTHER);
    while (stand_back.is_paused()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(class_while_waking(stand_back) == SCHED_IDLE);
  });
}

TEST_CASE("a thread goes to the processor of the one caller it has, and is free again with the next caller") {
  NEED_STANDING_BACK();
  on_a_thread([] {
    const int before = processors_of_this_thread();
    const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
    {
      CallerFollower follower;
      for (int i = 0; i < 20; ++i) follower.note(self);
      CHECK_FALSE(follower.is_following());
      CHECK(CallerFollower::stand_back() == nullptr);
      for (int i = 0; i < 500; ++i) follower.note(self);
      CHECK(follower.is_following());
      CHECK(CallerFollower::stand_back() != nullptr);
      CHECK(processors_of_this_thread() == 1);
      follower.note(1);
      CHECK_FALSE(follower.is_following());
      CHECK(CallerFollower::stand_back() == nullptr);
      CHECK(processors_of_this_thread() == before);
      for (int i = 0; i < 50; ++i) follower.note(self);
      CHECK(follower.is_following());
      for (int i = 0; i < 5; ++i) CallerFollower::stand_back()->while_waking(wait_long);
      follower.note(self);
      CHECK_FALSE(follower.is_following());
    }
    CHECK(CallerFollower::stand_back() == nullptr);
    CHECK(processors_of_this_thread() == before);
  });
}

TEST_CASE("callers that take turns, that cannot be seen or are gone are not followed") {
  on_a_thread([] {
    const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
    CallerFollower follower;
    for (int i = 0; i < 500; ++i) follower.note(i % 2 == 0 ? self : 1);
    CHECK_FALSE(follower.is_following());
    for (int i = 0; i < 500; ++i) follower.note(0);
    CHECK_FALSE(follower.is_following());
    pid_t gone = 0;
    std::thread([&] { gone = static_cast<pid_t>(::syscall(SYS_gettid)); }).join();
    for (int i = 0; i < 500; ++i) follower.note(gone);
    CHECK_FALSE(follower.is_following());
  });
}

}  // namespace
}  // namespace dsec::fuse
