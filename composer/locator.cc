// SPDX-License-Identifier: Apache-2.0
#include "composer/locator.h"

#include <unistd.h>

#include <unordered_set>

#include "format/recipe.h"
#include "store/decorators.h"
#include "store/sources.h"

namespace dsec::composer {

using format::ChunkLocation;
using format::LocationMapView;
using format::MapEntry;

Locator::Locator(const store::Store& store, const ChunkIndex& index, const Pipeline& pipeline)
    : index_(index),
      pipeline_(pipeline),
      store_(store),
      source_(store::verify(store::directory_source(store, io::make_sync_engine()))) {}

// Another composer may have put a pack there since the index was loaded. A readable one is enough then.
bool Locator::has_new_pack(const Digest& pack) {
  const auto [known, is_new] = new_packs_.emplace(pack, false);
  if (is_new) known->second = store_.read_pack_index(pack).has_value();
  return known->second;
}

Result<void> Locator::check_place(const MapEntry& entry) {
  const Digest& pack = entry.location.pack;
  if (index_.has_pack(pack) ? index_.has(entry) : has_new_pack(pack)) return {};
  return fail(ErrorCode::corrupt, "chunk {} is not where its map says, in pack {}", entry.digest.hex(), pack.hex());
}

Result<void> Locator::check_packs(const LocationMapView& map) const {
  for (std::size_t i = 0; i < map.pack_count(); ++i) {
    const std::filesystem::path path = store_.pack_path(map.pack(i));
    if (::access(path.c_str(), F_OK) == 0) continue;
    return fail(ErrorCode::not_found, "{} went away while its chunks were counted on: compose again", path.native());
  }
  return {};
}

Result<void> Locator::add_stored_layer(const Digest& layer, const format::LayerTree& tree) {
  auto map = std::make_unique<StoredMap>();
  map->layer = layer;
  map->bytes = TRY(store_.read_layer_map(layer));
  const auto check = [&]() -> Result<void> {
    map->view = TRY(LocationMapView::open(map->bytes));
    for (std::size_t i = 0; i < map->view.size(); ++i) TRY(check_place(map->view.entry(i)));
    for (format::InodeId id = 0; id < tree.capacity(); ++id) {
      const Digest& object = tree.inode(id).object;
      if (!object.is_zero()) TRY(map->view.find(object));
    }
    return {};
  };
  if (auto good = check(); !good) {
    return fail(ErrorCode::corrupt, "layer {} cannot be read whole: {}: {}; compose it again from its source (`from`)",
                layer.hex(), store_.layer_map_path(layer).native(), good.error().message);
  }
  maps_.push_back(std::move(map));
  return {};
}

bool Locator::has_good_map(const Digest& layer, ByteView map) {
  const auto check = [&]() -> Result<void> {
    const LocationMapView ours = TRY(LocationMapView::open_checked(map));
    const Bytes bytes = TRY(store_.read_layer_map(layer));
    const LocationMapView stored = TRY(LocationMapView::open(bytes));
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const MapEntry entry = ours.entry(i);
      const ChunkLocation there = TRY(stored.find(entry.digest));
      if (there != entry.location) TRY(check_place({entry.digest, there}));
    }
    return check_packs(stored);
  };
  return check().has_value();
}

Result<void> Locator::locate_stored(const Digest& object, std::vector<MapEntry>& entries) {
  for (const auto& map : maps_) {
    const auto location = map->view.find(object);
    if (!location) continue;
    entries.push_back({object, *location});
    const store::Chunk chunk = TRY(source_->fetch({object, *location, map->layer}, store::Deadline::max()));
    if (!format::looks_like_recipe(*chunk.bytes)) return {};
    for (const format::RecipePart& part : TRY(format::read_recipe(*chunk.bytes)).parts) {
      if (part.is_hole()) continue;
      entries.push_back({part.chunk, TRY(map->view.find(part.chunk))});
    }
    return {};
  }
  return fail(ErrorCode::corrupt, "object {} is in no layer", object.hex());
}

Result<Bytes> Locator::map_of(const format::LayerTree& tree) {
  std::vector<MapEntry> entries;
  std::unordered_set<Digest> done;
  for (format::InodeId id = 0; id < tree.capacity(); ++id) {
    const Digest& object = tree.inode(id).object;
    if (object.is_zero() || !done.insert(object).second) continue;
    auto located = pipeline_.locate(object, entries);
    if (!located && located.error().code == ErrorCode::not_found) located = locate_stored(object, entries);
    TRY(std::move(located));
  }
  Bytes map = format::write_location_map(std::move(entries));
  TRY(check_packs(TRY(LocationMapView::open_checked(map))));
  return map;
}

}  // namespace dsec::composer
