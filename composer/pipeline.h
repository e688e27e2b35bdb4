// SPDX-License-Identifier: Apache-2.0
// From file contents to chunks in packs: cut, hash, compress and write in parallel, with bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "composer/chunk_index.h"
#include "composer/content_sink.h"
#include "format/chunk.h"
#include "format/location_map.h"
#include "store/store.h"

namespace dsec::composer {

struct PipelineOptions {
  unsigned workers = 0;  // that hash and compress; 0: one a processor
  format::Effort effort = format::Effort::fast;
};

struct PipelineStats {
  std::uint64_t content_bytes = 0;  // of all files, holes included
  std::uint64_t chunks = 0;         // chunks and recipes met
  std::uint64_t new_chunks = 0;     // of them: not in the store before
  std::uint64_t new_plain_bytes = 0;
  std::uint64_t pack_bytes = 0;  // written to packs, indexes included
  std::uint64_t packs = 0;
};

// One run of the composer. The contents of its layers go through sinks, one after the other; then finish() closes the
// packs and map() gives each layer its location map. What it writes depends on the content and its order alone, not on
// the number of workers. Memory: about 1 MiB a worker, plus the index of the store, plus 60 bytes a chunk of this run.
// One thread drives it.
class Pipeline {
 public:
  virtual ~Pipeline() = default;

  // `index` and `store` must outlive the pipeline.
  static std::unique_ptr<Pipeline> create(const store::Store& store, const ChunkIndex& index, PipelineOptions options);

  // A sink for the files of one layer. Only one at a time may be in use.
  virtual std::unique_ptr<ContentSink> sink() = 0;

  // Makes all that was written durable. Call once, after the last sink finished.
  virtual Result<void> finish() = 0;

  // Locations of everything that an object of this run needs. `not_found` for an object that did not come through here.
  virtual Result<void> locate(const Digest& object, std::vector<format::MapEntry>& entries) const = 0;

  [[nodiscard]] virtual PipelineStats stats() const = 0;
};

}  // namespace dsec::composer
