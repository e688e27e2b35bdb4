// SPDX-License-Identifier: Apache-2.0
// A bounded copy on a local disk of the pack ranges that this node has read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "io/read_engine.h"
#include "store/pack_reader.h"

namespace dsec::store {

struct NodeCacheOptions {
  std::filesystem::path dir;      // made when missing; one process uses it
  std::uint64_t quota_bytes = 0;  // 0: a tenth of the file system, at most 100 GiB
  // Of the file system's space, left for others: the cache shrinks to keep it free.
  std::uint64_t reserve_bytes = std::uint64_t{1} << 30;
  // Read from the store at once: at a new place at least the first, up to the second where reads follow each other.
  std::uint64_t fetch_first_bytes = 16 << 10;
  std::uint64_t fetch_window_bytes = 1 << 20;
  unsigned max_prefetch = 2;                   // reads of the store ahead of need at a time
  std::uint64_t max_pending_bytes = 32 << 20;  // fetched and not yet written
  std::size_t max_windows = std::size_t{1} << 18;
};

struct NodeCacheStats {
  std::uint64_t hits = 0;         // requests served from the cache alone
  std::uint64_t misses = 0;       // the others
  std::uint64_t disk_bytes = 0;   // read from the cache
  std::uint64_t store_bytes = 0;  // read from the store
  std::uint64_t store_reads = 0;
  std::uint64_t merged_waits = 0;  // served by a fetch that somebody else had begun
  std::uint64_t evicted_bytes = 0;
  std::uint64_t dropped_corrupt = 0;  // windows whose bytes were not what was written, or were refused by the reader
  std::uint64_t uncached_reads = 0;   // requests, or fetches, that the cache could not take
  std::uint64_t write_failures = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t windows = 0;
  std::uint64_t quota_bytes = 0;
  std::string trouble;  // why nothing is cached now; empty when all is well
};

// Keeps what it reads through `inner` in blocks of 16 KiB. A range is fetched once however many ask for it; what is
// missing of it and what lies beside it go into one read of the store (at most 4 MiB). Written in the background, after
// the reader has its bytes. A block that is read back is compared with its checksum; a window with a wrong block is
// dropped and fetched again. `from_store` drops what is cached of the range and reads around the cache.
//
// No fault of the directory is a fault of a read: when it is full, read-only, gone, failing or another process's,
// requests are read from the store, one warning is logged until it works again ("node_cache_off", "node_cache_back"),
// and it is tried again from time to time.
class NodeCache : public PackReader {
 public:
  // `disk` reads the cache's own files.
  static std::shared_ptr<NodeCache> create(std::shared_ptr<PackReader> inner, std::shared_ptr<io::ReadEngine> disk,
                                           const NodeCacheOptions& options);

  [[nodiscard]] virtual NodeCacheStats stats() const = 0;
  // Evicts about `bytes` bytes, least used first; ~0 evicts all. What is being read stays. Returns the bytes evicted.
  virtual std::uint64_t evict(std::uint64_t bytes) = 0;
  // Whether all blocks of a range are here and written; a look at the index alone, and no use of them.
  [[nodiscard]] virtual bool has(const Digest& pack, std::uint64_t offset, std::uint64_t length) = 0;
  // Forgets the windows of a range.
  virtual void drop(const Digest& pack, std::uint64_t offset, std::uint64_t length) = 0;
  // Returns when everything fetched before has been written or given up.
  virtual void settle() = 0;
};

}  // namespace dsec::store
