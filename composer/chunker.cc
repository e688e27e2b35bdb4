// SPDX-License-Identifier: Apache-2.0
#include "composer/chunker.h"

#include <algorithm>
#include <cstring>

namespace dsec::composer {

using namespace format;

namespace {

// One random 64-bit number a byte value: splitmix64 from 0, so that every implementation has the same table.
constexpr std::array<std::uint64_t, 256> make_gear() {
  std::array<std::uint64_t, 256> gear{};
  std::uint64_t state = 0;
  for (auto& value : gear) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    value = z ^ (z >> 31);
  }
  return gear;
}

constexpr auto kGear = make_gear();
// Normalised chunking: harder than average before the average size, easier after it (2 bits each way).
constexpr std::uint64_t kMaskBefore = ~std::uint64_t{0} << (64 - 18);
constexpr std::uint64_t kMaskAfter = ~std::uint64_t{0} << (64 - 14);
constexpr std::size_t kCompactBytes = 1 << 20;

bool is_zero(ByteView bytes) {
  return bytes.empty() || (bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

std::size_t first_cut(ByteView segment) {
  const std::size_t end = std::min(segment.size(), kChunkMaxBytes);
  if (end <= kChunkMinBytes) return end;
  const std::size_t middle = std::min(end, kChunkAvgBytes);
  std::uint64_t hash = 0;
  std::size_t i = kChunkMinBytes;
  for (; i < middle; ++i) {
    hash = (hash << 1) + kGear[segment[i]];
    if ((hash & kMaskBefore) == 0) return i + 1;
  }
  for (; i < end; ++i) {
    hash = (hash << 1) + kGear[segment[i]];
    if ((hash & kMaskAfter) == 0) return i + 1;
  }
  return end;
}

void Chunker::data(ByteView bytes) {
  size_ += bytes.size();
  if (block_fill_ > 0) {
    const std::size_t part = std::min(bytes.size(), kHoleAlign - block_fill_);
    std::copy_n(bytes.begin(), part, block_.begin() + block_fill_);
    block_fill_ += part;
    bytes = bytes.subspan(part);
    if (block_fill_ < kHoleAlign) return;
    block_fill_ = 0;
    add_block(block_);
  }
  while (bytes.size() >= kHoleAlign) {
    add_block(bytes.first(kHoleAlign));
    bytes = bytes.subspan(kHoleAlign);
  }
  std::copy(bytes.begin(), bytes.end(), block_.begin());
  block_fill_ = bytes.size();
}

void Chunker::hole(std::uint64_t length) {
  static constexpr std::array<std::uint8_t, kHoleAlign> kZeros{};
  if (block_fill_ > 0) {
    const std::uint64_t part = std::min<std::uint64_t>(length, kHoleAlign - block_fill_);
    data(ByteView(kZeros).first(part));
    length -= part;
  }
  const std::uint64_t blocks = length / kHoleAlign * kHoleAlign;
  zeros_ += blocks;
  size_ += blocks;
  data(ByteView(kZeros).first(length - blocks));
}

void Chunker::end() {
  const ByteView rest = ByteView(block_).first(block_fill_);
  if (is_zero(rest)) {
    zeros_ += rest.size();
  } else {
    add_block(rest);
  }
  flush_zeros();
  end_segment();
  block_fill_ = 0;
  size_ = 0;
}

void Chunker::add_block(ByteView block) {
  if (is_zero(block)) {
    zeros_ += block.size();
    return;
  }
  flush_zeros();
  append(block);
}

void Chunker::flush_zeros() {
  const std::uint64_t zeros = std::exchange(zeros_, 0);
  if (zeros < kHoleMinBytes) {
    append_zeros(zeros);
    return;
  }
  end_segment();
  output_.hole(zeros);
}

void Chunker::append(ByteView bytes) {
  segment_.insert(segment_.end(), bytes.begin(), bytes.end());
  cut_full();
}

void Chunker::append_zeros(std::uint64_t count) {
  segment_.resize(segment_.size() + count);
  cut_full();
}

// Cuts while the next chunk cannot depend on what is still to come.
void Chunker::cut_full() {
  while (segment_.size() - head_ >= kChunkMaxBytes) {
    const std::size_t length = first_cut(ByteView(segment_).subspan(head_));
    output_.chunk(ByteView(segment_).subspan(head_, length));
    head_ += length;
  }
  if (head_ >= kCompactBytes) {
    segment_.erase(segment_.begin(), segment_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

void Chunker::end_segment() {
  const bool whole_file = size_ <= kWholeFileBytes;
  ByteView rest = ByteView(segment_).subspan(head_);
  while (!rest.empty()) {
    const std::size_t length = whole_file ? rest.size() : first_cut(rest);
    output_.chunk(rest.first(length));
    rest = rest.subspan(length);
  }
  segment_.clear();
  head_ = 0;
}

}  // namespace dsec::composer
