// SPDX-License-Identifier: Apache-2.0
#include "composer/chunk_index.h"

#include <algorithm>

#include "base/log.h"

namespace dsec::composer {

namespace {

bool digest_less(const format::MapEntry& a, const format::MapEntry& b) { return a.digest < b.digest; }

}  // namespace

Result<ChunkIndex> ChunkIndex::load(const store::Store& store) {
  ChunkIndex index;
  for (const Digest& pack : TRY(store.list_packs())) {
    auto entries = store.read_pack_index(pack);
    if (!entries) {
      log(LogLevel::warn, "pack_ignored", {{"pack", pack.hex()}, {"reason", entries.error().message}});
      continue;
    }
    index.packs_.push_back(pack);
    for (const format::PackEntry& entry : *entries) {
      index.entries_.push_back(
          {entry.digest, {pack, entry.offset, entry.stored_bytes, entry.plain_bytes, entry.codec}});
    }
  }
  std::sort(index.entries_.begin(), index.entries_.end(), digest_less);
  return index;
}

bool ChunkIndex::has_pack(const Digest& pack) const { return std::binary_search(packs_.begin(), packs_.end(), pack); }

bool ChunkIndex::has(const format::MapEntry& entry) const {
  const auto [first, last] = std::equal_range(entries_.begin(), entries_.end(), entry, digest_less);
  return std::find(first, last, entry) != last;
}

std::optional<format::ChunkLocation> ChunkIndex::find(const Digest& digest) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), format::MapEntry{digest, {}}, digest_less);
  if (found == entries_.end() || found->digest != digest) return std::nullopt;
  return found->location;
}

}  // namespace dsec::composer
