// SPDX-License-Identifier: Apache-2.0
// The chunk sources themselves, and the packs below them.
#pragma once

#include <cstddef>
#include <memory>

#include "io/read_engine.h"
#include "store/chunk_source.h"
#include "store/pack_reader.h"
#include "store/store.h"

namespace dsec::store {

// Whether the kernel is told what of a pack will be read next (internal/disk_read_ahead.h): for stores on a local disk,
// where bytes that nobody wants after all cost little.
enum class ReadAheadOnDisk : std::uint8_t { no, yes };

// The pack files of a directory store, each range read as it is asked for. At most `max_open_packs` descriptors are
// kept, least recently used closed first; a pack is opened anew after a failed read.
std::unique_ptr<PackReader> pack_files(Store store, std::shared_ptr<io::ReadEngine> engine,
                                       std::size_t max_open_packs = 256, ReadAheadOnDisk ahead = ReadAheadOnDisk::no);

// Lets demand go first: at most `max_prefetch` of the reads ahead of need run at a time, and none begins beside demand
// before it has waited for half a second. The node cache does so by itself.
std::unique_ptr<PackReader> prioritized(std::shared_ptr<PackReader> inner, unsigned max_prefetch);

// The chunks of packs, decoded. Not verified: wrap it in verify().
std::unique_ptr<ChunkSource> pack_chunks(std::shared_ptr<PackReader> packs);

// pack_chunks() of pack_files().
std::unique_ptr<ChunkSource> directory_source(Store store, std::shared_ptr<io::ReadEngine> engine,
                                              std::size_t max_open_packs = 256);

// Chunks in memory, by digest; the location is not looked at. For tests and for what is not yet in a store.
class MemorySource : public ChunkSource {
 public:
  virtual void put(const Digest& digest, Bytes plain) = 0;
  static std::unique_ptr<MemorySource> create();
};

}  // namespace dsec::store
