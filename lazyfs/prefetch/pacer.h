// SPDX-License-Identifier: Apache-2.0
// A bound on bytes a second.
#pragma once

#include <chrono>
#include <cstdint>

namespace dsec::prefetch {

// Says when the next bytes may be taken so that all together stay within `bytes_per_second`, after a burst of at most a
// tenth of a second's worth; 0 is no bound. Not thread-safe.
class Pacer {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Pacer(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  [[nodiscard]] Clock::time_point free_at() const { return paid_until_; }
  // Taken at `now`, when it was free.
  void charge(std::uint64_t bytes, Clock::time_point now);
  // Of what was charged, not taken after all.
  void refund(std::uint64_t bytes);

 private:
  [[nodiscard]] Clock::duration cost_of(std::uint64_t bytes) const;
  std::uint64_t rate_;
  Clock::time_point paid_until_{};  // what was taken is paid for by then
};

}  // namespace dsec::prefetch
