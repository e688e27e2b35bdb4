// SPDX-License-Identifier: Apache-2.0
#include "prefetch/pacer.h"

#include <algorithm>

namespace dsec::prefetch {

Pacer::Clock::duration Pacer::cost_of(std::uint64_t bytes) const {
  if (rate_ == 0) return {};
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) / static_cast<double>(rate_));
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

void Pacer::charge(std::uint64_t bytes, Clock::time_point now) {
  if (rate_ == 0) return;
  paid_until_ = std::max(paid_until_, now - std::chrono::milliseconds(100)) + cost_of(bytes);
}

void Pacer::refund(std::uint64_t bytes) { paid_until_ -= cost_of(bytes); }

}  // namespace dsec::prefetch
