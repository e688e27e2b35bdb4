// SPDX-License-Identifier: Apache-2.0
// Ranges of packs, as they are stored: what chunk sources decode.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "store/chunk_source.h"

namespace dsec::store {

struct PackRequest {
  Digest pack;
  std::uint64_t offset = 0;
  std::size_t length = 0;
  Urgency urgency = Urgency::demand;
  Freshness freshness = Freshness::any_copy;
};

// The bytes of a range, inside a buffer that may be larger and shared with other readers, and what getting them cost.
struct PackBytes {
  std::shared_ptr<const Bytes> buffer;
  std::size_t offset = 0;
  std::size_t length = 0;
  Origin origin = Origin::store;
  std::uint64_t store_bytes = 0;  // read from the store for this call, with what was read beside the range
  [[nodiscard]] ByteView view() const { return ByteView(*buffer).subspan(offset, length); }
};

// Gives ranges of packs. Implementations and decorators are thread-safe; calls block. Errors as ChunkSource, and they
// name the pack; `unavailable` when the store as a whole is away. The bytes are not compared with any digest.
class PackReader {
 public:
  virtual ~PackReader() = default;
  virtual Result<PackBytes> read(const PackRequest& request, Deadline deadline) = 0;
  // The size of a pack file in the store. Asked once, then remembered with the open file.
  virtual Result<std::uint64_t> size_of(const Digest& pack, Deadline deadline) = 0;
};

}  // namespace dsec::store
