// SPDX-License-Identifier: Apache-2.0
// How much to fetch at once.
#pragma once

#include <array>
#include <cstdint>

#include "base/digest.h"

namespace dsec::store {

// Sees the misses of the node cache and says how many blocks to fetch for each: few at a new place, twice as many each
// time a miss follows where the last fetch ended, up to a window's worth. So scattered reads fetch little that nobody
// touches, and a stream soon fetches in large pieces. Remembers the last kStreams places. Not thread-safe.
class ReadAhead {
 public:
  ReadAhead(std::uint64_t first_blocks, std::uint64_t max_blocks)
      : first_blocks_(first_blocks), max_blocks_(max_blocks) {}

  // For a miss at block `at` of which `wanted` blocks are asked for; at least that many.
  std::uint64_t plan(const Digest& pack, std::uint64_t at, std::uint64_t wanted);

 private:
  static constexpr std::size_t kStreams = 32;
  struct Stream {
    Digest pack;
    std::uint64_t next = 0;  // the block after the last fetch
    std::uint64_t blocks = 0;
    std::uint64_t used_at = 0;
  };
  std::uint64_t first_blocks_;
  std::uint64_t max_blocks_;
  std::uint64_t clock_ = 0;
  std::array<Stream, kStreams> streams_;
};

}  // namespace dsec::store
