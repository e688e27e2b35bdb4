// SPDX-License-Identifier: Apache-2.0
// Counters and histograms that many threads may raise.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
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

// How often something took how long. Bucket i counts what took less than 2^i microseconds and not less than half of
// that (bucket 0: less than 1 us); the last one holds everything from about 34 s on.
class LatencyHistogram {
 public:
  static constexpr std::size_t kBuckets = 26;

  void add(std::chrono::nanoseconds took) {
    const auto us = static_cast<std::uint64_t>(took.count() < 0 ? 0 : took.count() / 1000);
    const auto bucket = static_cast<std::size_t>(std::bit_width(us));
    buckets_[bucket < kBuckets ? bucket : kBuckets - 1].add();
    total_us_.add(us);
  }

  struct Snapshot {
    std::array<std::uint64_t, kBuckets> buckets{};
    std::uint64_t count = 0;
    std::uint64_t total_us = 0;
    // An upper bound in microseconds of what `share` (0 to 1) of all took: the end of the bucket that holds it. 0 when
    // there is nothing.
    [[nodiscard]] std::uint64_t quantile_us(double share) const {
      std::uint64_t below = 0;
      for (std::size_t i = 0; i < kBuckets; ++i) {
        below += buckets[i];
        if (below > 0 && static_cast<double>(below) >= share * static_cast<double>(count)) return std::uint64_t{1} << i;
      }
      return 0;
    }
  };
  // Not one point in time when others add meanwhile.
  [[nodiscard]] Snapshot snapshot() const {
    Snapshot now;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      now.buckets[i] = buckets_[i].get();
      now.count += now.buckets[i];
    }
    now.total_us = total_us_.get();
    return now;
  }

 private:
  std::array<Counter, kBuckets> buckets_;
  Counter total_us_;
};

}  // namespace dsec
