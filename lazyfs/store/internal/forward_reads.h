// SPDX-License-Identifier: Apache-2.0
// Who reads a file forwards, and how far ahead of them to go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace dsec::store {

// Sees the reads of one pack. Files of a directory lie in a pack as they were composed, so whoever reads a tree reads
// the pack forwards, with gaps and little steps back, and the layers of an environment are one such stream each. After
// `streak` such reads the next `window_bytes` are due, and again whenever half of them are used up. Scattered reads
// cost nothing. Not thread-safe.
class ForwardReads {
 public:
  struct Options {
    std::uint64_t window_bytes = 4 << 20;
    std::uint64_t near_bytes = 4 << 20;  // how far from the last end a read is still the same stream
    unsigned streak = 3;
    std::size_t streams = 8;  // at a time; the one that was used longest ago makes room
  };
  struct Range {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  explicit ForwardReads(Options options) : options_(options) {}
  // Notes a read; what is due after it, if anything.
  std::optional<Range> note(std::uint64_t offset, std::uint64_t length);

 private:
  struct Stream {
    std::uint64_t end = 0;    // of the last read
    std::uint64_t ahead = 0;  // due up to here
    unsigned streak = 0;
  };
  Options options_;
  std::vector<Stream> streams_;  // used last first
};

}  // namespace dsec::store
