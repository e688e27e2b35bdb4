// SPDX-License-Identifier: Apache-2.0
// Tells the kernel early what will be read of a pack on a local disk.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/guarded.h"

namespace dsec::store {

// Sees the reads of one pack file. Files of a directory lie in a pack as they were composed, so whoever reads a tree
// reads the pack forwards, with gaps and little steps back; the kernel's own read-ahead starts anew at each of them.
// After kStreak such reads the next kWindowBytes are asked for (posix_fadvise, WILLNEED), before they are wanted.
// Scattered reads cost nothing. Thread-safe.
class DiskReadAhead {
 public:
  static constexpr std::uint64_t kWindowBytes = 4 << 20;
  static constexpr std::uint64_t kNearBytes = 4 << 20;  // how far from the last end a read is still the same stream
  static constexpr unsigned kStreak = 3;

  void about_to_read(const Fd& file, std::uint64_t offset, std::uint64_t length);
  // Notes a read; where the next window to ask for begins, or 0 when there is none.
  std::uint64_t plan(std::uint64_t offset, std::uint64_t length);

 private:
  struct Stream {
    std::uint64_t end = 0;    // of the last read
    std::uint64_t ahead = 0;  // asked for up to here
    unsigned streak = 0;
  };
  Guarded<Stream> stream_;
};

}  // namespace dsec::store
