// SPDX-License-Identifier: Apache-2.0
#include "base/fan_out.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using namespace dsec;

TEST_CASE("each job is done once, however many are done at a time") {
  for (const std::size_t count : {0u, 1u, 2u, 7u, 100u}) {
    for (const unsigned at_once : {0u, 1u, 3u, 8u}) {
      std::vector<std::atomic<int>> done(count);
      fan_out(count, at_once, [&](std::size_t i) { ++done[i]; });
      for (const auto& times : done) CHECK(times == 1);
    }
  }
}

TEST_CASE("jobs that wait for each other run at the same time, and no more of them than allowed") {
  constexpr unsigned kAtOnce = 4;
  std::atomic<unsigned> inside{0};
  std::atomic<unsigned> most{0};
  std::atomic<unsigned> met{0};
  fan_out(kAtOnce, kAtOnce, [&](std::size_t) {  // a barrier: passed only by all together
    ++met;
    while (met < kAtOnce) std::this_thread::yield();
  });
  CHECK(met == kAtOnce);
  fan_out(64, kAtOnce, [&](std::size_t) {
    const unsigned now = ++inside;
    for (unsigned seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::yield();
    --inside;
  });
  CHECK(most <= kAtOnce);
}

TEST_CASE("one job runs on the caller's own thread") {
  std::thread::id where;
  fan_out(1, 8, [&](std::size_t) { where = std::this_thread::get_id(); });
  CHECK(where == std::this_thread::get_id());
}
