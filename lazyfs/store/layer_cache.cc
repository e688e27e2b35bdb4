// SPDX-License-Identifier: Apache-2.0
#include "store/layer_cache.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/fan_out.h"
#include "base/log.h"
#include "store/internal/map_check.h"
#include "store/sealed_file.h"

namespace dsec::store {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr unsigned kLayersAtOnce = 8;

// The local copy, or nothing when there is no good one.
std::unique_ptr<SealedFile> local_copy(const fs::path& path) {
  auto file = SealedFile::open(path);
  if (file) return std::make_unique<SealedFile>(std::move(*file));
  if (file.error().code != ErrorCode::not_found) {
    log(LogLevel::warn, "local_copy_unusable", {{"path", path.native()}, {"reason", file.error().message}});
  }
  return nullptr;
}

// Writes a local copy and maps it; what cannot be written stays in memory.
std::unique_ptr<SealedFile> make_local_copy(const fs::path& dir, const fs::path& path, Bytes content) {
  auto written = SealedFile::write(dir / "tmp", path, content);
  if (written) {
    if (auto file = SealedFile::open(path)) return std::make_unique<SealedFile>(std::move(*file));
  }
  log(LogLevel::warn, "local_copy_not_written",
      {{"path", path.native()}, {"reason", written ? "it does not read back" : written.error().message}});
  return std::make_unique<SealedFile>(SealedFile::in_memory(std::move(content)));
}

Error about_layer(Error error, const Digest& layer) {
  if (error.code == ErrorCode::corrupt) error.message += "; `dsec store check` finds all that is damaged";
  return std::move(error).within(fmt::format("layer {}", layer.hex()));
}

}  // namespace

struct Layer::MapCopy {
  enum class HasObjects : std::uint8_t { unknown, no, yes };
  std::unique_ptr<SealedFile> file;
  format::LocationMapView view;
  mutable std::atomic<HasObjects> has_objects = HasObjects::unknown;
};

Layer::Layer(const Digest& digest, Store store, fs::path dir)
    : digest_(digest), store_(std::move(store)), dir_(std::move(dir)) {}

Layer::~Layer() = default;

const format::LocationMapView& Layer::map() const { return map_.load(std::memory_order_acquire)->view; }

Result<void> Layer::load_copies() {
  image_path_ = dir_ / "layers" / (digest_.hex() + ".erofs");
  image_ = local_copy(image_path_);
  if (image_) view_ = TRY(format::ErofsView::open(image_->content()));
  auto map = std::make_unique<MapCopy>();
  map->file = local_copy(dir_ / "layers" / (digest_.hex() + ".map"));
  if (map->file) {
    map->view = TRY(format::LocationMapView::open_checked(map->file->content()));
    use(*maps_.lock(), std::move(map));
  }
  return {};
}

bool Layer::is_complete() const { return image_ && map_.load(std::memory_order_acquire) != nullptr; }

Result<void> Layer::fetch_image() {
  Bytes bytes = TRY(store_.read_layer_image(digest_));
  TRY_IN(store_.layer_image_path(digest_).native(), format::read_layer(bytes));
  image_ = make_local_copy(dir_, image_path_, std::move(bytes));
  if (image_->is_in_memory()) image_path_.clear();
  view_ = TRY(format::ErofsView::open(image_->content()));
  return {};
}

Result<void> Layer::fetch_missing() {
  if (!image_) TRY(fetch_image());
  if (is_complete()) return {};
  auto fetched = TRY(fetch_map());
  use(*maps_.lock(), std::move(fetched));
  return {};
}

Result<std::unique_ptr<const Layer::MapCopy>> Layer::fetch_map() const {
  Bytes bytes = TRY(store_.read_layer_map(digest_));
  const auto check = [&]() -> Result<void> {
    return check_map_has_objects(*view_, TRY(format::LocationMapView::open(bytes)));
  };
  TRY_IN(store_.layer_map_path(digest_).native(), check());
  auto copy = std::make_unique<MapCopy>();
  copy->file = make_local_copy(dir_, dir_ / "layers" / (digest_.hex() + ".map"), std::move(bytes));
  copy->view = TRY(format::LocationMapView::open_checked(copy->file->content()));
  copy->has_objects = MapCopy::HasObjects::yes;
  return std::unique_ptr<const MapCopy>(std::move(copy));
}

void Layer::use(Maps& maps, std::unique_ptr<const MapCopy> copy) const {
  map_.store(copy.get(), std::memory_order_release);
  maps.copies.push_back(std::move(copy));
}

// The lock is held while the store is read: one refresh at a time, and whoever waits has the outcome of that one.
Result<bool> Layer::refresh_map(const format::LocationMapView& tried) const {
  auto maps = maps_.lock();
  if (&tried != &maps->copies.back()->view) return true;
  if (maps->refreshed != Clock::time_point{} && Clock::now() - maps->refreshed < kRefreshPause) return false;
  maps->refreshed = Clock::now();
  auto fetched = fetch_map();
  if (!fetched) {
    log(LogLevel::warn, "location_map_not_renewed", {{"layer", digest_.hex()}, {"reason", fetched.error().message}});
    return tl::unexpected(about_layer(std::move(fetched).error(), digest_));
  }
  const ByteView now = (*fetched)->file->content();
  const ByteView before = maps->copies.back()->file->content();
  if (std::equal(now.begin(), now.end(), before.begin(), before.end())) return false;
  log(LogLevel::info, "location_map_renewed", {{"layer", digest_.hex()}});
  use(*maps, std::move(*fetched));
  return true;
}

bool Layer::map_has_objects() const {
  const MapCopy& copy = *map_.load(std::memory_order_acquire);
  if (copy.has_objects == MapCopy::HasObjects::unknown) {
    const bool has = check_map_has_objects(*view_, copy.view).has_value();
    copy.has_objects = has ? MapCopy::HasObjects::yes : MapCopy::HasObjects::no;
  }
  return copy.has_objects == MapCopy::HasObjects::yes;
}

Result<LayerCache> LayerCache::open(Store store, fs::path dir) {
  std::error_code error;  // load() finds out and says so
  for (const char* name : {"tmp", "layers", "envs"}) fs::create_directories(dir / name, error);
  return LayerCache(std::move(store), std::move(dir));
}

Result<std::shared_ptr<const Layer>> LayerCache::load(const Digest& layer) const {
  auto loaded = TRY(load_all({layer}));
  return std::move(loaded.front());
}

// On a new node most of the time goes into round trips: names to look up, files to open.
Result<std::vector<std::shared_ptr<const Layer>>> LayerCache::load_all(const std::vector<Digest>& layers) const {
  std::vector<std::shared_ptr<const Layer>> loaded;
  std::vector<Layer*> missing;
  for (const Digest& digest : layers) {
    auto layer = std::shared_ptr<Layer>(new Layer(digest, store_, dir_));
    TRY_IN(fmt::format("layer {}", digest.hex()), layer->load_copies());
    if (!layer->is_complete()) missing.push_back(layer.get());
    loaded.push_back(std::move(layer));
  }
  std::vector<Result<void>> fetched(missing.size());
  fan_out(missing.size(), kLayersAtOnce, [&](std::size_t i) { fetched[i] = missing[i]->fetch_missing(); });
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (!fetched[i]) return tl::unexpected(about_layer(std::move(fetched[i]).error(), missing[i]->digest()));
  }
  return loaded;
}

// Small documents: named by their digest, so a copy needs no seal.
Result<format::Env> LayerCache::load_env(const Digest& env) const {
  const fs::path path = dir_ / "envs" / (env.hex() + ".json");
  if (const auto bytes = read_file(path, format::kMaxEnvBytes); bytes && sha256(*bytes) == env) {
    return TRY_IN(fmt::format("environment {}", env.hex()), format::read_env(as_text(*bytes)));
  }
  format::Env document = TRY(store_.read_env(env));
  const std::string text = TRY(format::write_env(document));
  auto file = AtomicFile::create(dir_ / "tmp");
  if (file && file->write(as_bytes(text))) [[maybe_unused]]
    const auto ignored = file->replace(path);
  return document;
}

}  // namespace dsec::store
