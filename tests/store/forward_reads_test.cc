// SPDX-License-Identifier: Apache-2.0
#include "store/internal/forward_reads.h"

#include <catch2/catch.hpp>

namespace dsec::store {
namespace {

const ForwardReads::Options kOptions;
const std::uint64_t kFar = kOptions.near_bytes + 1;
const std::uint64_t kWindow = kOptions.window_bytes;

TEST_CASE("reads that follow each other, with gaps and steps back, have the next window due") {
  ForwardReads reads(kOptions);
  CHECK_FALSE(reads.note(1000, 100));
  CHECK_FALSE(reads.note(5000, 100));
  CHECK(reads.note(3000, 100) == ForwardReads::Range{5100, 5100 + kWindow});  // from the furthest end on
  std::uint64_t due = 5100 + kWindow;
  int windows = 0;
  for (std::uint64_t at = 5100; at < 5100 + 10 * kWindow; at += 100'000) {
    const auto range = reads.note(at, 60'000);
    if (!range) continue;
    CHECK(range->from == due);
    due = range->to;
    ++windows;
  }
  CHECK(windows >= 9);
  CHECK(windows <= 11);
}

TEST_CASE("scattered reads have nothing due") {
  ForwardReads reads(kOptions);
  for (std::uint64_t i = 1; i < 90; ++i) CHECK_FALSE(reads.note(i % 31 * 3 * kFar + i, 4096));
}

TEST_CASE("readers of several parts of a pack are told apart, up to a bound") {
  ForwardReads reads(kOptions);
  int due = 0;
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::uint64_t part = 0; part < kOptions.streams; ++part) {
      if (reads.note(part * 10 * kFar + step * 1000, 1000)) ++due;
    }
  }
  CHECK(due == static_cast<int>(kOptions.streams));
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::uint64_t part = 0; part < kOptions.streams + 1; ++part) {
      CHECK_FALSE(reads.note((100 + part) * 10 * kFar + step * 1000, 1000));  // each makes room for the next
    }
  }
}

}  // namespace
}  // namespace dsec::store
