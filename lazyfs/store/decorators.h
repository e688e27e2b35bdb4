// SPDX-License-Identifier: Apache-2.0
// What can be wrapped around a ChunkSource. The usual stack, from the reader down:
//   memory cache -> merge -> meter -> verify -> retry -> directory
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/metrics.h"
#include "store/chunk_source.h"

namespace dsec::store {

// Compares every chunk with its digest. Wrong bytes are fetched once more, since a disk or network may have erred in
// passing; then they are `corrupt`, with chunk, pack and layer in the message and in one log line ("chunk_corrupt").
std::unique_ptr<ChunkSource> verify(std::unique_ptr<ChunkSource> inner);

// One fetch of a digest at a time: who asks for a chunk that is on its way waits for that fetch, until its own
// deadline, and shares the result, also when it is an error. Only the first caller's result carries store_bytes.
std::unique_ptr<ChunkSource> merge_in_flight(std::unique_ptr<ChunkSource> inner);

struct RetryPolicy {
  int attempts = 4;  // in all
  std::chrono::milliseconds first_pause{50};
  std::chrono::milliseconds longest_pause{2000};
  // Sleeps; tests put their own here.
  std::function<void(std::chrono::milliseconds)> sleep;
};
// Repeats what may pass: `io`, `unavailable` and `not_found` (a network file system that is coming back says ENOENT or
// ESTALE). Pauses double. Never starts an attempt after the deadline; the last error is returned.
std::unique_ptr<ChunkSource> retry(std::unique_ptr<ChunkSource> inner, RetryPolicy policy);

struct FetchMeter {
  Counter fetches;
  Counter failures;
  Counter store_bytes;
  Counter plain_bytes;
};
// Counts what passes. `meter` is shared with whoever reads it.
std::unique_ptr<ChunkSource> metered(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter);

// Keeps up to `capacity_bytes` of decoded chunks, least recently used out first. Chunks in use stay alive with their
// users. A capacity of 0 keeps nothing.
std::unique_ptr<ChunkSource> memory_cached(std::unique_ptr<ChunkSource> inner, std::size_t capacity_bytes);

}  // namespace dsec::store
