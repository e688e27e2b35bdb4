// SPDX-License-Identifier: Apache-2.0
// Where the objects of a layer are stored, for its location map.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "composer/chunk_index.h"
#include "composer/pipeline.h"
#include "format/layer_tree.h"
#include "format/location_map.h"
#include "store/chunk_source.h"
#include "store/store.h"

namespace dsec::composer {

// Finds chunks first in the run at hand, then in the maps of layers that were in the store before: a hard link may copy
// a file of such a layer up. Keeps the maps it was given. `store`, `index` and `pipeline` must outlive it. One thread.
class Locator {
 public:
  Locator(const store::Store& store, const ChunkIndex& index, const Pipeline& pipeline);

  // Makes the objects of a stored layer known. `not_found`, `corrupt`; also when the layer's map does not lead to its
  // objects.
  Result<void> add_stored_layer(const Digest& layer, const format::LayerTree& tree);
  // The location map of a layer of this run. `corrupt` when an object is nowhere, `not_found` when a pack that was
  // there has gone meanwhile.
  Result<Bytes> map_of(const format::LayerTree& tree);
  // Whether the map that the store has of a layer is as good as `map`, the one of map_of(): it leads to the same
  // chunks, by packs that are there.
  [[nodiscard]] bool has_good_map(const Digest& layer, ByteView map);

 private:
  struct StoredMap {
    Digest layer;
    Bytes bytes;
    format::LocationMapView view;
  };
  Result<void> locate_stored(const Digest& object, std::vector<format::MapEntry>& entries);
  Result<void> check_place(const format::MapEntry& entry);
  bool has_new_pack(const Digest& pack);
  Result<void> check_packs(const format::LocationMapView& map) const;

  const ChunkIndex& index_;
  const Pipeline& pipeline_;
  const store::Store& store_;
  std::unique_ptr<store::ChunkSource> source_;
  std::vector<std::unique_ptr<StoredMap>> maps_;
  std::map<Digest, bool> new_packs_;  // that were not there when the index was loaded, or not readable
};

}  // namespace dsec::composer
