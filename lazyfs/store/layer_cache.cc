// SPDX-License-Identifier: Apache-2.0
#include "store/layer_cache.h"

#include "base/log.h"

namespace dsec::store {

Result<LayerCache> LayerCache::open(Store store, std::filesystem::path dir) {
  TRY(make_dirs(dir / "tmp"));
  return LayerCache(std::move(store), std::move(dir));
}

Result<Mapping> LayerCache::image(const Digest& layer) const {
  const std::filesystem::path path = dir_ / "layers" / (layer.hex() + ".erofs");
  auto cached = Mapping::of_file(path);
  if (cached && sha256(cached->view()) == layer) return cached;
  if (cached) log(LogLevel::warn, "cached_layer_damaged", {{"layer", layer.hex()}, {"path", path.native()}});
  const Bytes bytes = TRY(store_.read_layer_image(layer));
  TRY(format::read_layer(bytes));
  TRY(write_file_atomic(dir_ / "tmp", path, bytes));
  return Mapping::of_file(path);
}

Result<Mapping> LayerCache::map(const Digest& layer) const {
  const Bytes bytes = TRY(store_.read_layer_map(layer));
  const std::filesystem::path path = dir_ / "layers" / (layer.hex() + ".map");
  TRY(write_file_atomic(dir_ / "tmp", path, bytes));
  return Mapping::of_file(path);
}

Result<std::shared_ptr<const Layer>> LayerCache::load(const Digest& layer) const {
  const std::string name = fmt::format("layer {}", layer.hex());
  Mapping image_mapping = TRY_IN(name, image(layer));
  const format::ErofsView view = TRY_IN(name, format::ErofsView::open(image_mapping.view()));
  Mapping map_mapping = TRY_IN(name, map(layer));
  const format::LocationMapView map_view = TRY_IN(name, format::LocationMapView::open(map_mapping.view()));
  Layer::Parts parts{layer, std::move(image_mapping), view, std::move(map_mapping), map_view};
  return std::shared_ptr<const Layer>(new Layer(std::move(parts)));
}

}  // namespace dsec::store
