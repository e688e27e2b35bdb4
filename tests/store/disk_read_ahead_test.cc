// SPDX-License-Identifier: Apache-2.0
#include "store/internal/disk_read_ahead.h"

#include <catch2/catch.hpp>

namespace dsec::store {
namespace {

constexpr std::uint64_t kFar = DiskReadAhead::kNearBytes + 1;
constexpr std::uint64_t kWindow = DiskReadAhead::kWindowBytes;

TEST_CASE("reads that follow each other, with gaps and steps back, are read ahead of in windows") {
  DiskReadAhead ahead;
  CHECK(ahead.plan(1000, 100) == 0);
  CHECK(ahead.plan(5000, 100) == 0);
  CHECK(ahead.plan(3000, 100) == 5100);  // the third in a row: from the furthest end on
  std::uint64_t at = 5100;
  std::uint64_t windows = 0;
  for (; at < 5100 + 10 * kWindow; at += 100'000) windows += ahead.plan(at, 60'000) > 0 ? 1 : 0;
  CHECK(windows >= 9);
  CHECK(windows <= 11);
}

TEST_CASE("scattered reads ask for nothing ahead") {
  DiskReadAhead ahead;
  for (std::uint64_t i = 1; i < 50; ++i) CHECK(ahead.plan(i % 7 * 3 * kFar + i, 4096) == 0);
}

}  // namespace
}  // namespace dsec::store
