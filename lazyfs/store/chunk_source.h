// SPDX-License-Identifier: Apache-2.0
// Where chunks come from: one interface, everything else a decorator.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/digest.h"
#include "base/result.h"
#include "format/chunk.h"

namespace dsec::store {

using dsec::Deadline;

// Whether somebody waits for it. What is fetched ahead gives way to what is waited for.
enum class Urgency : std::uint8_t { demand, prefetch };

// Whether copies on this node will do. `from_store` is asked for when a copy turned out to be wrong.
enum class Freshness : std::uint8_t { any_copy, from_store };

// Which chunk or recipe is wanted, where it should be, and for whom.
struct ChunkRequest {
  Digest digest;
  format::ChunkLocation location;
  Digest layer;  // for messages
  Urgency urgency = Urgency::demand;
  Freshness freshness = Freshness::any_copy;
};

enum class Origin { memory, cache, store };

// The plain bytes of a chunk, shared and immutable, and what getting them cost.
struct Chunk {
  std::shared_ptr<const Bytes> bytes;
  Origin origin = Origin::store;
  std::uint64_t store_bytes = 0;  // read from the store for this call
};

// Gives chunks. Implementations and decorators are thread-safe; calls block. Errors:
//   not_found    the pack is not there
//   corrupt      the bytes are there and wrong
//   io           the operating system failed the read
//   timeout      the deadline passed first
// An implementation returns what it was asked for or an error: never other bytes, never zeros for missing ones. Only a
// source with verify() in its stack has compared them with the digest.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  virtual Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) = 0;
};

}  // namespace dsec::store
