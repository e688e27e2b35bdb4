// SPDX-License-Identifier: Apache-2.0
// Cuts the content of a file into chunks and holes. docs/format.md, section "Chunking".
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "format/chunk.h"

namespace dsec::composer {

// Where FastCDC cuts: the length of the first chunk of `segment`, which is all that is left of the segment or has at
// least kChunkMaxBytes. 1 to kChunkMaxBytes; 0 for an empty segment.
std::size_t first_cut(ByteView segment);

// One file at a time: data() and hole() in the order of the content, then end(), after which it is ready for the next
// file. The parts depend on the content alone, not on how it was handed in. Holds at most about 1 MiB. Not thread-safe.
class Chunker {
 public:
  struct Output {
    std::function<void(ByteView)> chunk;  // valid during the call
    std::function<void(std::uint64_t)> hole;
  };
  explicit Chunker(Output output) : output_(std::move(output)) {}

  void data(ByteView bytes);
  void hole(std::uint64_t length);
  void end();
  [[nodiscard]] std::uint64_t size() const { return size_; }  // of the open file so far

 private:
  void add_block(ByteView block);
  void flush_zeros();
  void append(ByteView bytes);
  void append_zeros(std::uint64_t count);
  void cut_full();
  void end_segment();

  Output output_;
  Bytes segment_;  // data of the open segment that is not cut yet, from head_
  std::size_t head_ = 0;
  std::uint64_t zeros_ = 0;  // zero bytes after the segment, whole blocks, not yet known to be a hole
  std::array<std::uint8_t, format::kHoleAlign> block_{};
  std::size_t block_fill_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace dsec::composer
