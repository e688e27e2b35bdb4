// SPDX-License-Identifier: Apache-2.0
#include "store/internal/window_record.h"

#include <algorithm>

#include "base/checksum.h"

namespace dsec::store {

namespace {

// magic, uses, window, pack_bytes, members, pack, one sum a block, checksum of all that
constexpr std::uint32_t kMagic = 0x57434544;  // "DECW"
constexpr std::size_t kAtUses = 4;
constexpr std::size_t kAtWindow = 8;
constexpr std::size_t kAtPackBytes = 16;
constexpr std::size_t kAtMembers = 24;
constexpr std::size_t kAtPack = 32;
constexpr std::size_t kAtSums = 64;
constexpr std::size_t kAtChecksum = kWindowRecordBytes - 8;
static_assert(kAtSums + 4 * kWindowBlocks <= kAtChecksum);

}  // namespace

void BlockSums::set(unsigned block, std::uint32_t sum) {
  const unsigned at = rank(block);
  if (!has(block)) {
    const unsigned before = count();
    auto larger = std::make_unique<std::uint32_t[]>(before + 1);
    std::copy_n(sums_.get(), at, larger.get());
    std::copy_n(sums_.get() + at, before - at, larger.get() + at + 1);
    sums_ = std::move(larger);
    members_ |= std::uint64_t{1} << block;
  }
  sums_[at] = sum;
}

WindowRecordBytes write_window_record(const WindowRecord& record) {
  WindowRecordBytes bytes{};
  store_le<std::uint32_t>(bytes.data(), kMagic);
  bytes[kAtUses] = record.uses;
  store_le<std::uint32_t>(bytes.data() + kAtWindow, record.window);
  store_le<std::uint64_t>(bytes.data() + kAtPackBytes, record.pack_bytes);
  store_le<std::uint64_t>(bytes.data() + kAtMembers, record.blocks.members());
  std::copy(record.pack.bytes.begin(), record.pack.bytes.end(), bytes.begin() + kAtPack);
  for (unsigned block = 0; block < kWindowBlocks; ++block) {
    if (record.blocks.has(block)) {
      store_le<std::uint32_t>(bytes.data() + kAtSums + 4 * block, record.blocks.sum(block));
    }
  }
  store_le<std::uint64_t>(bytes.data() + kAtChecksum, checksum64(ByteView(bytes).first(kAtChecksum)));
  return bytes;
}

std::optional<WindowRecord> read_window_record(ByteView bytes) {
  if (bytes.size() != kWindowRecordBytes || load_le<std::uint32_t>(bytes.data()) != kMagic) return std::nullopt;
  if (load_le<std::uint64_t>(bytes.data() + kAtChecksum) != checksum64(bytes.first(kAtChecksum))) return std::nullopt;
  WindowRecord record;
  record.uses = bytes[kAtUses];
  record.window = load_le<std::uint32_t>(bytes.data() + kAtWindow);
  record.pack_bytes = load_le<std::uint64_t>(bytes.data() + kAtPackBytes);
  record.pack = Digest::from_bytes(bytes.subspan(kAtPack, Digest::kSize));
  const auto members = load_le<std::uint64_t>(bytes.data() + kAtMembers);
  if (members == 0) return std::nullopt;
  const std::uint64_t last = record.window * kWindowBlocks + static_cast<unsigned>(std::bit_width(members)) - 1;
  if (last >= blocks_of(record.pack_bytes)) return std::nullopt;
  record.blocks =
      BlockSums(members, [&](unsigned block) { return load_le<std::uint32_t>(bytes.data() + kAtSums + 4 * block); });
  return record;
}

std::uint32_t block_sum(ByteView block) { return static_cast<std::uint32_t>(checksum64(block)); }

}  // namespace dsec::store
