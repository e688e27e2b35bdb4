// SPDX-License-Identifier: Apache-2.0
// Layer metadata on this node: local copies, verified before use.
#pragma once

#include <filesystem>
#include <memory>

#include "base/mapping.h"
#include "format/erofs.h"
#include "format/location_map.h"
#include "store/store.h"

namespace dsec::store {

// The metadata of one layer, mapped from the node cache. Immutable, shared by all environments that use the layer.
class Layer {
 public:
  [[nodiscard]] const Digest& digest() const { return parts_.digest; }
  [[nodiscard]] const format::ErofsView& view() const { return parts_.view; }
  [[nodiscard]] const format::LocationMapView& map() const { return parts_.map_view; }

 private:
  friend class LayerCache;
  struct Parts {
    Digest digest;
    Mapping image;
    format::ErofsView view;
    Mapping map;
    format::LocationMapView map_view;
  };
  explicit Layer(Parts parts) : parts_(std::move(parts)) {}

  Parts parts_;
};

// Copies of layer images and maps in a local directory. An image enters only after it was found canonical
// (format::read_layer) and its SHA-256 fits; each load compares the SHA-256 of the local copy again and replaces a
// damaged one from the store. Maps are copied anew at each load, since they may be rewritten. Thread-safe; one process
// should own the directory.
class LayerCache {
 public:
  static Result<LayerCache> open(Store store, std::filesystem::path dir);

  // `not_found` or `corrupt` name the layer.
  [[nodiscard]] Result<std::shared_ptr<const Layer>> load(const Digest& layer) const;

 private:
  LayerCache(Store store, std::filesystem::path dir) : store_(std::move(store)), dir_(std::move(dir)) {}
  [[nodiscard]] Result<Mapping> image(const Digest& layer) const;
  [[nodiscard]] Result<Mapping> map(const Digest& layer) const;

  Store store_;
  std::filesystem::path dir_;
};

}  // namespace dsec::store
