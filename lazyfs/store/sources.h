// SPDX-License-Identifier: Apache-2.0
// The chunk sources themselves.
#pragma once

#include <cstddef>
#include <memory>

#include "io/read_engine.h"
#include "store/chunk_source.h"
#include "store/store.h"

namespace dsec::store {

// Reads from the packs of a directory store. At most `max_open_packs` descriptors are kept, least recently used closed
// first. Not verified: wrap it in verify().
std::unique_ptr<ChunkSource> directory_source(Store store, std::shared_ptr<io::ReadEngine> engine,
                                              std::size_t max_open_packs = 256);

// Chunks in memory, by digest; the location is not looked at. For tests and for what is not yet in a store.
class MemorySource : public ChunkSource {
 public:
  virtual void put(const Digest& digest, Bytes plain) = 0;
  static std::unique_ptr<MemorySource> create();
};

}  // namespace dsec::store
