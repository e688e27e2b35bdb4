// SPDX-License-Identifier: Apache-2.0
// Which windows of which packs are in which slots of the cache's data file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "store/internal/window_record.h"

namespace dsec::store {

using SlotId = std::uint32_t;

// The table of slots in memory: about 80 bytes a window and 4 for each of its blocks. A slot is free, live (some window
// is in it), or dying: no longer found, but pinned by a reader or not yet wiped. Evicts by CLOCK: a window that was
// read since the hand came by stays for one more round, up to three, which costs readers one byte instead of a list and
// lets what was read once go first. Not thread-safe.
class WindowIndex {
 public:
  // At most this many windows; more are no_space (claim() says nothing then).
  explicit WindowIndex(std::size_t max_windows) : max_windows_(max_windows) {}

  // Before restore(): about so many will come.
  void expect(std::size_t windows);
  // A slot as its record says. False when another slot has that window already.
  bool restore(SlotId slot, WindowRecord record);
  // After the last restore(): every slot below `count` that was not restored is free.
  void finish_restore(SlotId count);

  [[nodiscard]] std::optional<SlotId> find(const Digest& pack, std::uint32_t window) const;
  // The slot of a window, an empty one if it has none yet. Nothing when there is no room.
  std::optional<SlotId> claim(const Digest& pack, std::uint64_t pack_bytes, std::uint32_t window);

  [[nodiscard]] const BlockSums& blocks(SlotId slot) const { return slots_[slot].blocks; }
  [[nodiscard]] std::uint64_t pack_bytes(SlotId slot) const { return packs_[slots_[slot].pack].bytes; }
  [[nodiscard]] bool is_live(SlotId slot) const { return slots_[slot].state == State::live; }
  void set_block(SlotId slot, unsigned block, std::uint32_t sum);
  [[nodiscard]] WindowRecord record(SlotId slot) const;

  void pin(SlotId slot) { ++slots_[slot].pins; }
  void unpin(SlotId slot);
  void touch(SlotId slot);
  // No longer found from now on.
  void remove(SlotId slot);
  // Removes windows that nobody has pinned until `bytes` bytes are gone or there are none left; the bytes removed.
  std::uint64_t evict(std::uint64_t bytes, std::size_t& windows);
  // Removed slots that nobody uses any more; they are the caller's to wipe and to hand back with release().
  std::vector<SlotId> take_dead();
  void release(const std::vector<SlotId>& wiped);
  // Up to `limit` slots whose use changed since the last call.
  std::vector<SlotId> take_touched(std::size_t limit);

  // Also of what is dying, since it is on the disk until it is wiped.
  [[nodiscard]] std::uint64_t used_bytes() const { return used_blocks_ * kBlockBytes; }
  [[nodiscard]] std::size_t windows() const { return places_.size(); }
  // One past the last slot.
  [[nodiscard]] SlotId end() const { return static_cast<SlotId>(slots_.size()); }

 private:
  using PackId = std::uint32_t;
  enum class State : std::uint8_t { free, live, dying };
  struct Slot {
    PackId pack = 0;
    std::uint32_t window = 0;
    std::uint16_t pins = 0;
    std::uint8_t uses = 0;
    State state = State::free;
    bool is_touched = false;
    BlockSums blocks;
  };
  struct Pack {
    Digest digest;
    std::uint64_t bytes = 0;
    std::uint32_t windows = 0;
  };

  static std::uint64_t key(PackId pack, std::uint32_t window) { return std::uint64_t{pack} << 32 | window; }
  PackId pack_id(const Digest& pack, std::uint64_t bytes);
  void occupy(SlotId slot, PackId pack, std::uint32_t window);

  std::size_t max_windows_;
  std::vector<Slot> slots_;
  std::vector<SlotId> free_;
  std::vector<SlotId> dead_;
  std::unordered_map<std::uint64_t, SlotId> places_;
  std::vector<Pack> packs_;
  std::vector<PackId> free_packs_;
  std::unordered_map<Digest, PackId> pack_ids_;
  std::uint64_t used_blocks_ = 0;
  SlotId hand_ = 0;
  std::vector<SlotId> touched_;
};

}  // namespace dsec::store
