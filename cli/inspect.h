// SPDX-License-Identifier: Apache-2.0
// What environments and layers hold, for the inspect verbs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "store/store.h"

namespace dsec::cli {

struct LayerFacts {
  std::uint64_t metadata_bytes = 0;
  std::uint64_t chunks = 0;
  std::uint64_t plain_bytes = 0;   // of its chunks and recipes, each once
  std::uint64_t stored_bytes = 0;  // of the same, in packs
  std::uint64_t packs = 0;
};

// From the location map of a layer.
Result<LayerFacts> layer_facts(const store::Store& store, const Digest& layer);
// Of several layers together: a chunk that two of them have counts once.
Result<LayerFacts> layers_facts(const store::Store& store, const std::vector<Digest>& layers);

Json to_json(const LayerFacts& facts);
Json to_json(const format::RunConfig& config);

}  // namespace dsec::cli
