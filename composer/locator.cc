// SPDX-License-Identifier: Apache-2.0
#include "composer/locator.h"

#include <unordered_set>

#include "format/recipe.h"
#include "store/decorators.h"
#include "store/sources.h"

namespace dsec::composer {

using format::MapEntry;

Locator::Locator(const store::Store& store, const Pipeline& pipeline)
    : pipeline_(pipeline),
      store_(store),
      source_(store::verify(store::directory_source(store, io::make_sync_engine()))) {}

Result<void> Locator::add_stored_layer(const Digest& layer) {
  auto map = std::make_unique<StoredMap>();
  map->layer = layer;
  map->bytes = TRY(store_.read_layer_map(layer));
  map->view = TRY_IN(fmt::format("layer {}", layer.hex()), format::LocationMapView::open(map->bytes));
  maps_.push_back(std::move(map));
  return {};
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
  return format::write_location_map(std::move(entries));
}

}  // namespace dsec::composer
