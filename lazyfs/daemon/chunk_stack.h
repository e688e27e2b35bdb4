// SPDX-License-Identifier: Apache-2.0
// Where the chunks of all mounts come from.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "daemon/known_store.h"
#include "daemon/settings.h"
#include "io/hf3fs.h"
#include "store/decorators.h"
#include "store/meters.h"
#include "store/node_cache.h"

namespace dsec::daemon {

// From the reader down: counting by origin, memory, one fetch at a time, counting, digests, retries, decoding, the node
// cache when it is used, the packs of the store.
struct ChunkStack {
  std::shared_ptr<store::ChunkSource> source;
  std::shared_ptr<store::PackReader> packs;      // below it, for what is fetched ahead
  std::shared_ptr<store::MemoryCache> memory;    // in it
  std::uint64_t memory_bytes = 0;                // that it may have
  std::shared_ptr<store::NodeCache> node_cache;  // null when it is not used
  std::string node_cache_reason;                 // why it is used or not
  std::string io_engine;                         // of the store: "sync", "uring" or "hf3fs"
  std::shared_ptr<io::Hf3fsCounters> hf3fs;      // null when that is not used
  std::shared_ptr<store::FetchMeter> fetch_meter;
  std::shared_ptr<store::OriginMeter> origin_meter = std::make_shared<store::OriginMeter>();
  std::shared_ptr<store::PackMeter> pack_meter = std::make_shared<store::PackMeter>();
};

// As the settings say; "auto" goes by the place of the store. What does not work here is replaced by what does, with
// one log line. Touches the store only to find where 3FS is mounted, and keeps that in `known`.
ChunkStack make_chunk_stack(KnownStore& known, const Settings& settings,
                            const std::shared_ptr<store::FetchMeter>& meter);

// For the status: {"io_engine": ..., "hf3fs": {...} when used, "node_cache": {...}, "store_bytes": {"demand",
// "prefetch"}}.
Json describe(const ChunkStack& stack);

}  // namespace dsec::daemon
