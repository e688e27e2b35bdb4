// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/caller_follower.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/fd.h"
#include "base/text.h"

namespace dsec::fuse {

namespace {

thread_local StandBack* current = nullptr;

// Where it ran last; -1 when that cannot be told.
int processor_of(pid_t thread) {
  constexpr std::uint64_t kMaxBytes = 4096;
  constexpr std::size_t kProcessor = 36;  // field 39 of proc(5), counted from the state, which follows the name
  const auto bytes = read_file(fmt::format("/proc/{}/stat", thread), kMaxBytes);
  if (!bytes) return -1;
  const std::string_view text = as_text(*bytes);
  const std::size_t name_ends = text.rfind(')');  // the name may have blanks and parentheses
  if (name_ends == std::string_view::npos) return -1;
  const auto fields = split(text.substr(std::min(name_ends + 2, text.size())), ' ');
  int processor = -1;
  if (fields.size() > kProcessor) {
    std::from_chars(fields[kProcessor].data(), fields[kProcessor].data() + fields[kProcessor].size(), processor);
  }
  return processor < CPU_SETSIZE ? processor : -1;
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
