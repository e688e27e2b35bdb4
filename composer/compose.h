// SPDX-License-Identifier: Apache-2.0
// From sources to layers and an environment in a store.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "composer/manifest.h"
#include "composer/pipeline.h"
#include "store/store.h"

namespace dsec::composer {

// Half-written files of a store that nobody has touched for so long are nobody's: compose() removes them. A composer
// that is at work touches all of its own each time when it closes a pack.
inline constexpr std::chrono::hours kLitterAge{24};

// What is being read; `total_bytes` is 0 when unknown.
struct ComposeProgress {
  std::string layer;
  std::size_t layers_done = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t total_bytes = 0;
};

struct ComposeOptions {
  unsigned jobs = 0;  // threads that hash and compress; 0: one a processor
  format::Effort effort = format::Effort::fast;
  enum class Squash { no, yes } squash = Squash::no;     // one layer for each [[layer]], however many its image has
  enum class Strict { no, yes } strict = Strict::no;     // warnings are errors
  std::function<void(const ComposeProgress&)> progress;  // from the calling thread; may be empty
};

struct ComposedLayer {
  Digest digest;
  std::string source;   // what it was made of, or the ref it came from
  bool reused = false;  // was in the store already
  std::uint64_t files = 0;
  std::uint64_t metadata_bytes = 0;
};

struct ComposeReport {
  Digest env;
  format::RefName name;
  std::vector<ComposedLayer> layers;
  std::vector<std::string> warnings;
  PipelineStats stats;
};

// Composes an environment: reads every source, stores what the store does not have, then writes layers, the environment
// and last the refs. Until then nothing of it is visible; after a failure or a crash the store is as before, but for
// litter in tmp/, which a later call removes (kLitterAge). A layer that is there already is mended where its image is
// damaged or its map does not lead to its chunks, say since a pack is gone. The same input gives the same digests,
// whatever `jobs` is. Each [[layer]] with a source also becomes a layer ref, which names a stack (docs/format.md,
// "Names"). `invalid` for mistakes in the plan or the sources, `not_found` for a layer that is not in the store,
// `corrupt` for one there that cannot be read and has no source to be made anew from, and all that the store can fail
// with.
Result<ComposeReport> compose(const store::Store& store, const ComposePlan& plan, const ComposeOptions& options);

}  // namespace dsec::composer
