// SPDX-License-Identifier: Apache-2.0
// Settings, counts and breaches of the stand-in, shared by its parts.
#pragma once

#include <atomic>
#include <string>

namespace hf3fs_mock {

// All numbers that have a name outside.
struct Numbers {
  using Number = std::atomic<long>;
  Number error_every, error_errno, short_every, over_every, never_every, stray_every, delay_us, hold, early, reorder,
      workers, seed, prep_errno, submit_errno, wait_errno, reg_errno, iorcreate_errno, iovcreate_errno;
  Number preps, submits, waits, reaped, early_runs, regs, deregs, rings, iovs, ended_in_flight, breaches;
  Number open_rings, open_iovs, open_fds, in_flight;
};
Numbers& numbers();

// Records the first breach and counts all.
void breach(const std::string& text);

// The directory that stands for the mount.
std::string root();

// True for each `every`-th call with the same `ticks`; never when `every` is 0.
inline bool is_turn(std::atomic<long>& every, std::atomic<long>& ticks) {
  const long wanted = every.load();
  return wanted > 0 && (ticks.fetch_add(1) + 1) % wanted == 0;
}

}  // namespace hf3fs_mock
