// SPDX-License-Identifier: Apache-2.0
// Chunks that a reader is about to want, decoded by another processor meanwhile.
#pragma once

#include <cstdint>
#include <memory>

#include "store/decorators.h"
#include "store/pack_reader.h"

namespace dsec::store {

struct DecodeAheadOptions {
  std::uint64_t window_bytes = 2 << 20;            // of the pack, ahead of each reader
  std::size_t max_entries = std::size_t{1} << 20;  // of the packs whose order is known at a time: 64 bytes each
};

// Gives what `memory` gives. While chunks of a pack are asked for in about the order in which they lie there, which is
// the order of the files of a tree, one thread brings the chunks that follow into `memory`. They are as much demand as
// what is asked for: meant for packs on a local disk, where reading a little too much costs nobody. What bringing one
// cost is told to the first who asks for it. Errors of what nobody asked for are nobody's. Thread-safe.
std::unique_ptr<ChunkSource> decode_ahead(std::shared_ptr<MemoryCache> memory, std::shared_ptr<PackReader> packs,
                                          DecodeAheadOptions options = {});

}  // namespace dsec::store
