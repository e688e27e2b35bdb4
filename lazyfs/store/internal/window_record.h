// SPDX-License-Identifier: Apache-2.0
// Which blocks of one window of a pack are cached, and their checksums.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/digest.h"

namespace dsec::store {

// Packs are cached in blocks; 64 blocks, aligned, are a window, the unit of bookkeeping and eviction. The last block of
// a pack is shorter.
inline constexpr std::size_t kBlockBytes = 16 << 10;
inline constexpr std::uint64_t kWindowBlocks = 64;
inline constexpr std::uint64_t kWindowBytes = kWindowBlocks * kBlockBytes;

inline std::uint64_t blocks_of(std::uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

// A set of the blocks of a window, each with a checksum; takes four bytes a member. Not thread-safe.
class BlockSums {
 public:
  BlockSums() = default;
  // `of(block)` is asked for each member, in order.
  template <typename SumOf>
  BlockSums(std::uint64_t members, SumOf of)
      : members_(members), sums_(std::make_unique<std::uint32_t[]>(static_cast<std::size_t>(std::popcount(members)))) {
    std::size_t at = 0;
    for (unsigned block = 0; block < kWindowBlocks; ++block) {
      if (has(block)) sums_[at++] = of(block);
    }
  }
  [[nodiscard]] std::uint64_t members() const { return members_; }
  [[nodiscard]] unsigned count() const { return static_cast<unsigned>(std::popcount(members_)); }
  [[nodiscard]] bool has(unsigned block) const { return (members_ >> block & 1) != 0; }
  // Only for a member.
  [[nodiscard]] std::uint32_t sum(unsigned block) const { return sums_[rank(block)]; }
  void set(unsigned block, std::uint32_t sum);

 private:
  [[nodiscard]] unsigned rank(unsigned block) const {
    return static_cast<unsigned>(std::popcount(members_ & ((std::uint64_t{1} << block) - 1)));
  }
  std::uint64_t members_ = 0;
  std::unique_ptr<std::uint32_t[]> sums_;  // in the order of the blocks
};

// One record of the index file: what a slot of the data file holds.
struct WindowRecord {
  Digest pack;
  std::uint64_t pack_bytes = 0;
  std::uint32_t window = 0;  // number in the pack
  std::uint8_t uses = 0;     // for eviction
  BlockSums blocks;
};

inline constexpr std::size_t kWindowRecordBytes = 512;
using WindowRecordBytes = std::array<std::uint8_t, kWindowRecordBytes>;

WindowRecordBytes write_window_record(const WindowRecord& record);
// Nothing when the bytes are not a whole record: a torn or damaged one, or none was written.
std::optional<WindowRecord> read_window_record(ByteView bytes);

// The checksum of a block.
std::uint32_t block_sum(ByteView block);

}  // namespace dsec::store
