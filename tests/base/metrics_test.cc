// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using namespace dsec;
using namespace std::chrono_literals;

TEST_CASE("a duration falls into the bucket of its power of two") {
  LatencyHistogram histogram;
  for (const auto took : {0ns, 999ns, 1000ns, 2000ns, 3999ns, 4000ns}) histogram.add(took);
  histogram.add(-5ns);
  histogram.add(100h);
  const auto now = histogram.snapshot();
  CHECK(now.buckets[0] == 3);
  CHECK(now.buckets[1] == 1);
  CHECK(now.buckets[2] == 2);
  CHECK(now.buckets[3] == 1);
  CHECK(now.buckets[LatencyHistogram::kBuckets - 1] == 1);
  CHECK(now.count == 8);
}

TEST_CASE("a quantile is the end of the bucket that holds it") {
  LatencyHistogram histogram;
  CHECK(histogram.snapshot().quantile_us(0.5) == 0);
  for (int i = 0; i < 99; ++i) histogram.add(3us);
  histogram.add(1000us);
  const auto now = histogram.snapshot();
  CHECK(now.quantile_us(0.5) == 4);
  CHECK(now.quantile_us(0.99) == 4);
  CHECK(now.quantile_us(1.0) == 1024);
  CHECK(now.total_us == 99 * 3 + 1000);
}

TEST_CASE("nothing is lost when many threads add") {
  LatencyHistogram histogram;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10000; ++n) histogram.add(1us);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(histogram.snapshot().count == 40000);
}
