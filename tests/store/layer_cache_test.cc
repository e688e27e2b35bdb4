// SPDX-License-Identifier: Apache-2.0
#include "store/layer_cache.h"

#include <catch2/catch.hpp>

#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;
namespace fs = std::filesystem;

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

TEST_CASE("a damaged local copy is replaced from the store") {
  const Fixture f;
  REQUIRE(f.cache.load(f.layer));
  damage(f.local(), 1100, "\xff\xff");
  REQUIRE(f.cache.load(f.layer));
  CHECK(read_text(f.local()) == read_text(f.store.layer_image_path(f.layer)));
  fs::resize_file(f.local(), 100);
  CHECK(f.cache.load(f.layer).has_value());
  fs::resize_file(f.local(), 0);
  CHECK(f.cache.load(f.layer).has_value());
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

TEST_CASE("a map is read anew each time; a damaged one is an error that names the layer") {
  const Fixture f;
  REQUIRE(f.cache.load(f.layer));
  write_text(f.store.layer_map_path(f.layer), "no map");
  const auto loaded = f.cache.load(f.layer);
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == ErrorCode::corrupt);
  CHECK_THAT(loaded.error().message, Catch::Contains(f.layer.hex()));
  fs::remove(f.store.layer_map_path(f.layer));
  CHECK_FALSE(f.cache.load(f.layer));
}

}  // namespace
}  // namespace dsec::store
