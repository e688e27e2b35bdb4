// SPDX-License-Identifier: Apache-2.0
// What can be wrapped around a ChunkSource. The usual stack, from the reader down:
//   decode ahead -> memory cache -> merge -> meter -> verify -> retry -> pack chunks -> node cache -> pack files
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/metrics.h"
#include "store/chunk_source.h"

namespace dsec::store {

struct FetchMeter {
  Counter fetches;
  Counter failures;
  Counter store_bytes;
  Counter plain_bytes;
  Counter merged_waits;  // chunks that somebody else was fetching already
  Counter retries;       // fetches made again, since the store failed
  Counter wrong_bytes;   // fetches whose bytes were not those of the digest
  Counter corrupt;       // chunks that were given up for that
};

// Compares every chunk with its digest. Wrong bytes are fetched once more, from the store itself, since a disk or
// network may have erred in passing or a copy on this node may have rotted; then they are `corrupt`, with chunk, pack
// and layer in the message and in one log line ("chunk_corrupt").
std::unique_ptr<ChunkSource> verify(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter = nullptr);

// One fetch of a digest at a time: who asks for a chunk that is on its way waits for that fetch, until its own
// deadline, and shares the result, also when it is an error. Only the first caller's result carries store_bytes. Demand
// does not wait for a fetch that was begun ahead of need: it asks below by itself.
std::unique_ptr<ChunkSource> merge_in_flight(std::unique_ptr<ChunkSource> inner,
                                             std::shared_ptr<FetchMeter> meter = nullptr);

struct RetryPolicy {
  int attempts = 4;  // in all; of a store that is `unavailable` as many as there is time for
  std::chrono::milliseconds first_pause{50};
  std::chrono::milliseconds longest_pause{2000};
  // Sleeps; tests put their own here.
  std::function<void(std::chrono::milliseconds)> sleep;
};
// Repeats what may pass: `io` and `not_found` some times (a network file system that is coming back says ENOENT or
// ESTALE), `unavailable` until the deadline: the store as a whole is away, and readers wait for it. Pauses double.
// Never starts an attempt after the deadline; the last error is returned.
std::unique_ptr<ChunkSource> retry(std::unique_ptr<ChunkSource> inner, RetryPolicy policy,
                                   std::shared_ptr<FetchMeter> meter = nullptr);

// Counts what passes: the first four of the meter. It is shared with whoever reads it; the other decorators count
// theirs in the one they are given.
std::unique_ptr<ChunkSource> metered(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter);

// Chunks in memory, least recently used out first. Chunks in use stay alive with their users.
class MemoryCache : public ChunkSource {
 public:
  // Fetches a chunk that is not there, before anybody asks for it; the first who does is told what it cost.
  virtual Result<void> load(const ChunkRequest& request, Deadline deadline) = 0;
  // Not a use of it.
  [[nodiscard]] virtual bool has(const Digest& digest) = 0;
  // Forgets a chunk, or all. Returns the bytes that were held for it.
  virtual std::uint64_t drop(const Digest& digest) = 0;
  virtual std::uint64_t drop_all() = 0;
  [[nodiscard]] virtual std::uint64_t used_bytes() = 0;
};
// Keeps up to `capacity_bytes` of decoded chunks; 0 keeps nothing.
std::unique_ptr<MemoryCache> memory_cached(std::unique_ptr<ChunkSource> inner, std::size_t capacity_bytes);

}  // namespace dsec::store
