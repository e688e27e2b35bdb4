// SPDX-License-Identifier: Apache-2.0
// Metadata on this node: local copies of layers and environments, verified before use.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/guarded.h"
#include "format/env.h"
#include "format/erofs.h"
#include "format/location_map.h"
#include "store/store.h"

namespace dsec::store {

class SealedFile;

// The metadata of one layer, mapped from the node cache; shared by all environments that use the layer. What the image
// says never changes. Thread-safe.
class Layer {
 public:
  ~Layer();
  [[nodiscard]] const Digest& digest() const { return digest_; }
  [[nodiscard]] const format::ErofsView& view() const { return *view_; }
  // The local copy of the image: a file that begins with all of it. Empty when there is only one in memory, since the
  // directory could not be written.
  [[nodiscard]] const std::filesystem::path& image_path() const { return image_path_; }
  // Where the chunks are. A view that was given out stays valid as long as the layer, also when a newer one is there.
  [[nodiscard]] const format::LocationMapView& map() const;
  // Reads the store's map again, since `tried` did not lead to what it should: it lacks something, or the pack is gone
  // or has something else there. The store may have been repacked or repaired. True when there is a newer map than
  // `tried` now, whoever got it. The store is read at most once in kRefreshPause. A map that is no good is an error
  // and in the log, and the old one stays.
  Result<bool> refresh_map(const format::LocationMapView& tried) const;
  static constexpr std::chrono::seconds kRefreshPause{5};
  // Whether the newest map has every object of the image. One from the store does; a copy that was already here may
  // be of a time when the store was not in order. Walks the image when it is asked the first time for such a copy.
  [[nodiscard]] bool map_has_objects() const;

 private:
  friend class LayerCache;
  struct MapCopy;
  struct Maps {
    std::vector<std::unique_ptr<const MapCopy>> copies;  // the newest last
    std::chrono::steady_clock::time_point refreshed{};
  };
  Layer(const Digest& digest, Store store, std::filesystem::path dir);
  Result<void> load_copies();
  [[nodiscard]] bool is_complete() const;
  Result<void> fetch_missing();
  Result<void> fetch_image();
  [[nodiscard]] Result<std::unique_ptr<const MapCopy>> fetch_map() const;
  void use(Maps& maps, std::unique_ptr<const MapCopy> copy) const;

  Digest digest_;
  Store store_;
  std::filesystem::path dir_;
  std::filesystem::path image_path_;
  std::unique_ptr<SealedFile> image_;
  std::optional<format::ErofsView> view_;  // set before anybody gets the layer
  mutable Guarded<Maps> maps_;
  mutable std::atomic<const MapCopy*> map_ = nullptr;
};

// Copies of layer images, location maps and environment documents in a local directory. What enters was found canonical
// (format::read_layer) and its SHA-256 fits; a map has every object of its layer, so that a store that is damaged there
// is found when an environment is attached and not in the middle of its use. Copies carry a checksum, which each load
// compares again, and a damaged or missing one comes from the store. With all copies there the store is not asked at
// all. Thread-safe; one process should own the directory. A directory that cannot be written is no error but a line in
// the log: then each load reads the store and what it read stays in memory.
class LayerCache {
 public:
  static Result<LayerCache> open(Store store, std::filesystem::path dir);

  // `not_found` or `corrupt` name the layer and the file.
  [[nodiscard]] Result<std::shared_ptr<const Layer>> load(const Digest& layer) const;
  // The same for several, in their order; what is not here yet comes from the store a few layers at a time.
  [[nodiscard]] Result<std::vector<std::shared_ptr<const Layer>>> load_all(const std::vector<Digest>& layers) const;
  // `not_found` or `corrupt` name the environment.
  [[nodiscard]] Result<format::Env> load_env(const Digest& env) const;

 private:
  LayerCache(Store store, std::filesystem::path dir) : store_(std::move(store)), dir_(std::move(dir)) {}

  Store store_;
  std::filesystem::path dir_;
};

}  // namespace dsec::store
