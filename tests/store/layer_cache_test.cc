// SPDX-License-Identifier: Apache-2.0
#include "store/layer_cache.h"

#include <catch2/catch.hpp>

#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;
namespace fs = std::filesystem;

constexpr std::size_t kSealBytes = 16;  // at the end of a local copy

struct Fixture {
  TempDir dir;
  Store store = new_store(dir / "store");
  LayerCache cache = *LayerCache::open(store, dir / "cache");
  Digest layer = *store.put_layer(*format::write_layer(format::LayerTree()), format::write_location_map({}));
  [[nodiscard]] fs::path local() const { return dir / "cache/layers" / (layer.hex() + ".erofs"); }
};

TEST_CASE("a layer is copied once and then needs no image in the store") {
  const Fixture f;
  REQUIRE(f.cache.load(f.layer));
  fs::remove(f.store.layer_image_path(f.layer));
  const auto again = f.cache.load(f.layer);
  REQUIRE(again);
  CHECK((*again)->digest() == f.layer);
  CHECK((*again)->view().inode_count() == 1);
}

// Wherever a bit of a local copy flips, and wherever it is cut, what is loaded is what the store has.
TEST_CASE("a damaged local copy is replaced from the store") {
  const Fixture f;
  REQUIRE(f.cache.load(f.layer));
  const std::string image = read_text(f.store.layer_image_path(f.layer));
  const std::string whole = read_text(f.local());
  REQUIRE(whole.substr(0, image.size()) == image);
  for (std::size_t at = 0; at < whole.size(); at += at < image.size() ? 97 : 1) {
    damage(f.local(), at, std::string(1, static_cast<char>(whole[at] ^ 0x10)));
    REQUIRE(f.cache.load(f.layer));
    CHECK(read_text(f.local()) == whole);
  }
  for (const std::size_t length : {whole.size() - 1, whole.size() - 16, std::size_t{100}, std::size_t{0}}) {
    fs::resize_file(f.local(), length);
    REQUIRE(f.cache.load(f.layer));
    CHECK(read_text(f.local()) == whole);
  }
}

TEST_CASE("a damaged or absent layer is an error that names it") {
  const Fixture f;
  const auto absent = f.cache.load(digest_of("absent"));
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == ErrorCode::not_found);
  CHECK_THAT(absent.error().message, Catch::Contains(digest_of("absent").hex()));
  damage(f.store.layer_image_path(f.layer), 1100, "\xff");
  CHECK(f.cache.load(f.layer).error().code == ErrorCode::corrupt);
  CHECK_FALSE(fs::exists(f.local()));
}

TEST_CASE("an image that is not canonical does not enter, although its digest fits") {
  const Fixture f;
  Bytes image = *format::write_layer(format::LayerTree());
  image.back() ^= 1;
  const Digest other = *f.store.put_layer(image, format::write_location_map({}));
  CHECK(f.cache.load(other).error().code == ErrorCode::corrupt);
}

TEST_CASE("with local copies the store is not asked; a damaged map is an error that names the layer") {
  const Fixture f;
  write_text(f.store.layer_map_path(f.layer), "no map");
  const auto loaded = f.cache.load(f.layer);
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == ErrorCode::corrupt);
  CHECK_THAT(loaded.error().message, Catch::Contains(f.layer.hex()));
  const Bytes good = format::write_location_map({});
  write_text(f.store.layer_map_path(f.layer), std::string(as_text(good)));
  REQUIRE(f.cache.load(f.layer));
  fs::remove(f.store.layer_map_path(f.layer));
  fs::remove(f.store.layer_image_path(f.layer));
  REQUIRE(f.cache.load(f.layer));
  damage(f.dir / "cache/layers" / (f.layer.hex() + ".map"), 9, "\x01");
  CHECK(f.cache.load(f.layer).error().code == ErrorCode::not_found);
}

TEST_CASE("a renewed map is used by whoever holds the layer, and old views stay valid") {
  const Fixture f;
  const auto layer = *f.cache.load(f.layer);
  const format::LocationMapView& old = layer->map();
  CHECK_FALSE(*layer->refresh_map(old));  // the same
  const auto other = *f.cache.load(f.layer);
  const format::MapEntry entry{digest_of("chunk"), {digest_of("pack"), 8, 5, 5, format::Codec::plain}};
  const Bytes renewed = format::write_location_map({entry});
  write_text(f.store.layer_map_path(f.layer), std::string(as_text(renewed)));
  CHECK_FALSE(*layer->refresh_map(old));  // too soon after the last time
  const format::LocationMapView& tried = other->map();
  CHECK(*other->refresh_map(tried));
  CHECK(*other->refresh_map(tried));  // who tried it at the same time and comes later has the new one, too
  CHECK_FALSE(*other->refresh_map(other->map()));
  CHECK(other->map().find(entry.digest)->pack == entry.location.pack);
  CHECK(old.size() == 0);
  CHECK((*f.cache.load(f.layer))->map().size() == 1);  // the local copy is the new one
}

// A layer of one file, "sub/f", with a map that has its object.
struct WithObject {
  explicit WithObject(const Store& store) {
    format::LayerTree tree;
    format::Inode directory;
    directory.type = format::FileType::directory;
    format::Inode file;
    file.size = 5;
    file.object = object;
    REQUIRE(tree.add(*tree.add(tree.root(), "sub", directory), "f", file));
    layer = *store.put_layer(*format::write_layer(tree), map);
  }
  Digest object = digest_of("content");
  Bytes map = format::write_location_map({{object, {digest_of("pack"), 16, 5, 5, format::Codec::plain}}});
  Digest layer;
};

TEST_CASE("a map that lacks an object of its layer is refused, and not taken for a better one") {
  const Fixture f;
  const WithObject with(f.store);
  const auto layer = *f.cache.load(with.layer);
  CHECK(layer->map_has_objects());
  const fs::path in_store = f.store.layer_map_path(with.layer);
  const fs::path copy = f.dir / "cache/layers" / (with.layer.hex() + ".map");
  fs::copy_file(f.store.layer_map_path(f.layer), in_store, fs::copy_options::overwrite_existing);
  const auto refreshed = layer->refresh_map(layer->map());
  REQUIRE_FALSE(refreshed);
  CHECK(refreshed.error().code == ErrorCode::corrupt);
  CHECK(layer->map().size() == 1);
  REQUIRE(f.cache.load(with.layer));  // the copy is the good one still
  fs::remove(copy);
  const auto loaded = f.cache.load(with.layer);
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == ErrorCode::corrupt);
  CHECK_THAT(loaded.error().message, Catch::Contains(with.layer.hex()) && Catch::Contains(in_store.native()) &&
                                         Catch::Contains(with.object.hex()) && Catch::Contains("dsec store check"));
  CHECK_FALSE(fs::exists(copy));
  write_text(in_store, std::string(as_text(with.map)));
  CHECK(f.cache.load(with.layer));
}

TEST_CASE("a copy of the wrong map is used until it fails somebody") {
  const Fixture f;
  const WithObject with(f.store);
  const auto copy = [&](const Digest& layer) { return f.dir / "cache/layers" / (layer.hex() + ".map"); };
  REQUIRE(f.cache.load_all({f.layer, with.layer}));
  fs::copy_file(copy(f.layer), copy(with.layer), fs::copy_options::overwrite_existing);
  const auto layer = *f.cache.load(with.layer);
  CHECK_FALSE(layer->map_has_objects());
  CHECK(*layer->refresh_map(layer->map()));
  CHECK(layer->map_has_objects());
  CHECK(layer->map().find(with.object));
}

TEST_CASE("a damaged image or map is named once, with its file and what to do") {
  for (const std::string what : {"image", "map"}) {
    const Fixture f;
    const fs::path path = what == "map" ? f.store.layer_map_path(f.layer) : f.store.layer_image_path(f.layer);
    damage(path, what == "map" ? 30 : 1100, "\xff");
    const auto loaded = f.cache.load(f.layer);
    REQUIRE_FALSE(loaded);
    const std::string& message = loaded.error().message;
    CHECK_THAT(message, Catch::Contains(path.native()) && Catch::Contains("dsec store check"));
    const std::string layer = fmt::format("layer {}", f.layer.hex());
    CHECK(message.find(layer) == 0);
    CHECK(message.find(layer, 1) == std::string::npos);
  }
}

TEST_CASE("a cache that cannot be written costs reads of the store, nothing else") {
  Fixture f;
  write_text(f.dir / "file", "");
  const LayerCache nowhere = *LayerCache::open(f.store, f.dir / "file/cache");
  const auto layer = nowhere.load(f.layer);
  REQUIRE(layer);
  CHECK((*layer)->view().inode_count() == 1);
  CHECK((*layer)->image_path().empty());
}

// A layer of its own for each name; several MiB of metadata when it is to be `large`.
Digest put_named_layer(const Store& store, const std::string& name, bool large) {
  format::LayerTree tree;
  format::Inode inode;
  inode.mode = 0644;
  REQUIRE(tree.add(tree.root(), name, inode));
  for (int i = 0; large && i < 30'000; ++i) {
    REQUIRE(tree.add(tree.root(), fmt::format("{:0>100}", i), inode));
  }
  return *store.put_layer(*format::write_layer(tree), format::write_location_map({}));
}

TEST_CASE("several layers come in the order they were asked for, new ones and those that are here, small and large") {
  const Fixture f;
  std::vector<Digest> layers{f.layer};
  for (int i = 0; i < 20; ++i) layers.push_back(put_named_layer(f.store, fmt::format("n{}", i), i % 7 == 3));
  for (std::size_t here = 0; here < layers.size(); here += 3) REQUIRE(f.cache.load(layers[here]));
  for (const char* from : {"the store", "the copies"}) {
    INFO(from);
    const auto loaded = f.cache.load_all(layers);
    REQUIRE(loaded);
    REQUIRE(loaded->size() == layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      CHECK((*loaded)[i]->digest() == layers[i]);
      const std::string copy = read_text((*loaded)[i]->image_path());
      CHECK(digest_of(std::string_view(copy).substr(0, copy.size() - kSealBytes)) == layers[i]);
    }
    fs::remove_all(f.store.root() / "layers");
  }
}

TEST_CASE("of several layers the first bad one is named, wherever its image is cut or damaged") {
  const Fixture f;
  const Digest large = put_named_layer(f.store, "large", true);
  const fs::path image = f.store.layer_image_path(large);
  const std::string whole = read_text(image);
  REQUIRE(whole.size() > 3 << 20);
  for (const std::size_t length : {whole.size() - 1, whole.size() / 2, std::size_t{1} << 20, std::size_t{0}}) {
    fs::resize_file(image, length);
    const auto loaded = f.cache.load_all({f.layer, large, digest_of("absent")});
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code == ErrorCode::corrupt);
    CHECK_THAT(loaded.error().message, Catch::Contains(large.hex()));
    write_text(image, whole);
  }
  for (const std::size_t at : {std::size_t{5000}, whole.size() / 2, whole.size() - 1}) {
    damage(image, at, std::string(1, static_cast<char>(whole[at] ^ 0x10)));
    CHECK(f.cache.load_all({f.layer, large}).error().code == ErrorCode::corrupt);
    write_text(image, whole);
  }
  CHECK(f.cache.load_all({f.layer, large}));
}

TEST_CASE("an environment's document is read from the store once") {
  const Fixture f;
  format::Env env;
  env.layers = {f.layer};
  const Digest digest = *f.store.put_env(env);
  REQUIRE(f.cache.load_env(digest));
  fs::remove(f.store.env_path(digest));
  CHECK(f.cache.load_env(digest)->layers == env.layers);
  damage(f.dir / "cache/envs" / (digest.hex() + ".json"), 3, "x");
  CHECK(f.cache.load_env(digest).error().code == ErrorCode::not_found);
}

}  // namespace
}  // namespace dsec::store
