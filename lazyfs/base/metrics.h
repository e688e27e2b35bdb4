// SPDX-License-Identifier: Apache-2.0
// Counters that many threads may raise.
#pragma once

#include <atomic>
#include <cstdint>

namespace dsec {

// A number that only grows. Relaxed: it orders nothing, it only counts.
class Counter {
 public:
  void add(std::uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace dsec
