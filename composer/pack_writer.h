// SPDX-License-Identifier: Apache-2.0
// Writes chunks into packs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/atomic_file.h"
#include "base/result.h"
#include "format/pack.h"
#include "store/store.h"

namespace dsec::composer {

// Packs are closed when they reach this size, so that a reader finds few large files.
inline constexpr std::uint64_t kPackTargetBytes = std::uint64_t{512} << 20;

// Appends chunks to a pack and starts the next one when it is full. The digest of a pack is known when it is closed, so
// a chunk's place is first given by the number of its pack in this writer. All packs enter the store in finish();
// without that they vanish with the writer. One thread at a time.
class PackWriter {
 public:
  explicit PackWriter(const store::Store& store) : store_(store) {}

  // The number of the pack that took the chunk; `entry` gets its offset.
  Result<std::uint32_t> add(format::PackEntry& entry, ByteView stored);
  // Closes the open pack and puts all into the store. pack_digest() is valid for all numbers from here.
  Result<void> finish();

  [[nodiscard]] const Digest& pack_digest(std::uint32_t number) const { return digests_[number]; }
  [[nodiscard]] std::size_t pack_count() const { return digests_.size(); }
  [[nodiscard]] std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  struct OpenPack {
    AtomicFile file;
    Sha256 hash;
    std::vector<format::PackEntry> entries;
    Bytes buffer;  // not yet written
    std::uint64_t size = 0;
  };
  Result<void> start();
  Result<void> append(ByteView bytes);
  Result<void> flush();
  Result<void> close();

  const store::Store& store_;
  std::optional<OpenPack> open_;
  std::vector<AtomicFile> closed_;  // not yet in the store, in the order of digests_
  std::vector<Digest> digests_;
  std::uint64_t written_bytes_ = 0;
};

}  // namespace dsec::composer
