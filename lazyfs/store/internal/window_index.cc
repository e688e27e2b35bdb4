// SPDX-License-Identifier: Apache-2.0
#include "store/internal/window_index.h"

#include <algorithm>

namespace dsec::store {

namespace {

constexpr std::uint8_t kMaxUses = 3;

}  // namespace

WindowIndex::PackId WindowIndex::pack_id(const Digest& pack, std::uint64_t bytes) {
  if (const auto found = pack_ids_.find(pack); found != pack_ids_.end()) return found->second;
  PackId id = static_cast<PackId>(packs_.size());
  if (free_packs_.empty()) {
    packs_.emplace_back();
  } else {
    id = free_packs_.back();
    free_packs_.pop_back();
  }
  packs_[id] = {pack, bytes, 0};
  pack_ids_.emplace(pack, id);
  return id;
}

void WindowIndex::occupy(SlotId slot, PackId pack, std::uint32_t window) {
  slots_[slot].pack = pack;
  slots_[slot].window = window;
  slots_[slot].state = State::live;
  ++packs_[pack].windows;
  places_.emplace(key(pack, window), slot);
}

void WindowIndex::expect(std::size_t windows) {
  places_.reserve(std::min(windows, max_windows_));
  slots_.reserve(std::min(windows, max_windows_));
}

bool WindowIndex::restore(SlotId slot, WindowRecord record) {
  if (find(record.pack, record.window) || slot >= max_windows_) return false;
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  occupy(slot, pack_id(record.pack, record.pack_bytes), record.window);
  slots_[slot].uses = std::min(record.uses, kMaxUses);
  used_blocks_ += record.blocks.count();
  slots_[slot].blocks = std::move(record.blocks);
  return true;
}

void WindowIndex::finish_restore(SlotId count) {
  slots_.resize(std::max<std::size_t>(slots_.size(), std::min<std::size_t>(count, max_windows_)));
  for (SlotId slot = end(); slot-- > 0;) {
    if (slots_[slot].state == State::free) free_.push_back(slot);
  }
}

std::optional<SlotId> WindowIndex::find(const Digest& pack, std::uint32_t window) const {
  const auto id = pack_ids_.find(pack);
  if (id == pack_ids_.end()) return std::nullopt;
  const auto place = places_.find(key(id->second, window));
  if (place == places_.end()) return std::nullopt;
  return place->second;
}

std::optional<SlotId> WindowIndex::claim(const Digest& pack, std::uint64_t pack_bytes, std::uint32_t window) {
  if (const auto slot = find(pack, window)) return slot;
  if (free_.empty() && slots_.size() >= max_windows_) return std::nullopt;
  SlotId slot = end();
  if (free_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  occupy(slot, pack_id(pack, pack_bytes), window);
  slots_[slot].uses = 1;
  return slot;
}

void WindowIndex::set_block(SlotId slot, unsigned block, std::uint32_t sum) {
  used_blocks_ += slots_[slot].blocks.has(block) ? 0 : 1;
  slots_[slot].blocks.set(block, sum);
}

WindowRecord WindowIndex::record(SlotId slot) const {
  const Slot& from = slots_[slot];
  const Pack& pack = packs_[from.pack];
  WindowRecord record{pack.digest, pack.bytes, from.window, from.uses, {}};
  record.blocks = BlockSums(from.blocks.members(), [&](unsigned block) { return from.blocks.sum(block); });
  return record;
}

void WindowIndex::unpin(SlotId slot) {
  if (--slots_[slot].pins == 0 && slots_[slot].state == State::dying) dead_.push_back(slot);
}

void WindowIndex::touch(SlotId id) {
  Slot& slot = slots_[id];
  if (slot.uses == kMaxUses) return;
  ++slot.uses;
  if (!slot.is_touched) touched_.push_back(id);
  slot.is_touched = true;
}

void WindowIndex::remove(SlotId id) {
  Slot& slot = slots_[id];
  places_.erase(key(slot.pack, slot.window));
  Pack& pack = packs_[slot.pack];
  if (--pack.windows == 0) {
    pack_ids_.erase(pack.digest);
    free_packs_.push_back(slot.pack);
  }
  slot.state = State::dying;
  if (slot.pins == 0) dead_.push_back(id);
}

std::uint64_t WindowIndex::evict(std::uint64_t bytes, std::size_t& windows) {
  std::uint64_t removed = 0;
  // Every window is passed at most once more than it may have been used.
  for (std::size_t steps = slots_.size() * (kMaxUses + 1); steps > 0 && removed < bytes; --steps) {
    hand_ = hand_ + 1 < end() ? hand_ + 1 : 0;
    Slot& slot = slots_[hand_];
    if (slot.state != State::live || slot.pins > 0) continue;
    if (slot.uses > 0) {
      --slot.uses;
      continue;
    }
    removed += std::uint64_t{slot.blocks.count()} * kBlockBytes;
    remove(hand_);
    ++windows;
  }
  return removed;
}

std::vector<SlotId> WindowIndex::take_dead() { return std::exchange(dead_, {}); }

void WindowIndex::release(const std::vector<SlotId>& wiped) {
  for (const SlotId slot : wiped) {
    used_blocks_ -= slots_[slot].blocks.count();
    slots_[slot].blocks = {};
    slots_[slot].state = State::free;
  }
  free_.insert(free_.end(), wiped.begin(), wiped.end());
}

std::vector<SlotId> WindowIndex::take_touched(std::size_t limit) {
  std::vector<SlotId> taken;
  while (taken.size() < limit && !touched_.empty()) {
    const SlotId slot = touched_.back();
    touched_.pop_back();
    slots_[slot].is_touched = false;
    if (is_live(slot) && slots_[slot].blocks.count() > 0) taken.push_back(slot);
  }
  return taken;
}

}  // namespace dsec::store
