// SPDX-License-Identifier: Apache-2.0
// Where the objects of a layer are stored, for its location map.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "composer/pipeline.h"
#include "format/layer_tree.h"
#include "format/location_map.h"
#include "store/chunk_source.h"
#include "store/store.h"

namespace dsec::composer {

// Finds chunks first in the run at hand, then in the maps of layers that were in the store before: a hard link may copy
// a file of such a layer up. Keeps the maps it was given. One thread.
class Locator {
 public:
  Locator(const store::Store& store, const Pipeline& pipeline);

  // Makes the objects of a stored layer known. `not_found`, `corrupt`.
  Result<void> add_stored_layer(const Digest& layer);
  // The location map of a layer of this run. `corrupt` when an object is nowhere.
  Result<Bytes> map_of(const format::LayerTree& tree);

 private:
  struct StoredMap {
    Digest layer;
    Bytes bytes;
    format::LocationMapView view;
  };
  Result<void> locate_stored(const Digest& object, std::vector<format::MapEntry>& entries);

  const Pipeline& pipeline_;
  const store::Store& store_;
  std::unique_ptr<store::ChunkSource> source_;
  std::vector<std::unique_ptr<StoredMap>> maps_;
};

}  // namespace dsec::composer
