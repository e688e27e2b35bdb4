// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <catch2/catch.hpp>

#include "format/erofs.h"
#include "format/location_map.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;
using format::RefKind;
using format::RefName;
namespace fs = std::filesystem;

format::Env env_of(std::string_view text) {
  format::Env env;
  env.layers = {digest_of(text)};
  return env;
}

template <typename T>
std::string message_of(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

TEST_CASE("a store is made in an absent or empty directory and is the same when opened again") {
  const TempDir dir;
  const auto made = Store::open_or_create(dir / "a/b/store");
  REQUIRE(made);
  CHECK(made->uuid().size() == 36);
  CHECK(Store::open(dir / "a/b/store")->uuid() == made->uuid());
  CHECK(Store::open_or_create(dir / "a/b/store")->uuid() == made->uuid());
  fs::create_directory(dir / "empty");
  CHECK(Store::open_or_create(dir / "empty").has_value());
  CHECK(count_files(made->tmp_dir()) == 0);
}

TEST_CASE("what is no store is refused and left alone") {
  const TempDir dir;
  CHECK(Store::open(dir / "absent").error().code == ErrorCode::not_found);
  CHECK_THAT(message_of(Store::open(dir / "absent")), Catch::Contains("dsec compose"));
  write_text(dir / "mine", "precious");
  const auto refused = Store::open_or_create(dir.path());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::exists);
  CHECK(count_files(dir.path()) == 1);
}

TEST_CASE("a store is recalled as it was without being asked; one that nobody remembered is not") {
  const TempDir dir;
  const fs::path copy = dir / "copy.toml";
  const Store store = new_store(dir / "store");
  CHECK(Store::recall(dir / "store", copy).error().code == ErrorCode::not_found);
  REQUIRE(store.remember(copy));
  fs::rename(dir / "store", dir / "away");
  const auto recalled = Store::recall(dir / "store", copy);
  REQUIRE(recalled);
  CHECK(recalled->uuid() == store.uuid());
  CHECK(recalled->root() == dir / "store");
  write_text(copy, "version = 2\n");
  CHECK(Store::recall(dir / "store", copy).error().code == ErrorCode::unsupported);
}

TEST_CASE("a half-made store, as a crash leaves it, is completed") {
  const TempDir dir;
  for (const char* folder : {"tmp", "packs", "refs/env"}) fs::create_directories(dir / "store" / folder);
  write_text(dir / "store/tmp/litter", "x");
  const auto store = Store::open_or_create(dir / "store");
  CHECK(message_of(store) == "no error");
}

TEST_CASE("a store of another version or chunking is unsupported, a damaged one invalid") {
  const TempDir dir;
  new_store(dir / "store");
  const auto open_with = [&](std::string_view settings) {
    write_text(dir / "store/store.toml", settings);
    return Store::open(dir / "store");
  };
  CHECK(open_with("version = 2\nuuid = \"u\"\nchunking = \"fastcdc-16-64-256\"\n").error().code ==
        ErrorCode::unsupported);
  CHECK(open_with("version = 1\nuuid = \"u\"\nchunking = \"new\"\n").error().code == ErrorCode::unsupported);
  CHECK(open_with("version = ").error().code == ErrorCode::invalid);
  CHECK(open_with("version = 1\nuuid = \"u\"\nchunking = \"fastcdc-16-64-256\"\nmore = 1\n").error().code ==
        ErrorCode::invalid);
}

TEST_CASE("an environment is stored under its digest, twice is once, and damage is found") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const Digest digest = *store.put_env(env_of("a"));
  CHECK(*store.put_env(env_of("a")) == digest);
  CHECK(*store.read_env(digest) == env_of("a"));
  CHECK(*store.list_envs() == std::vector{digest});
  damage(store.env_path(digest), 3, "x");
  CHECK(store.read_env(digest).error().code == ErrorCode::corrupt);
  CHECK(store.read_env(digest_of("absent")).error().code == ErrorCode::not_found);
}

TEST_CASE("a layer is stored once, map first, and damage is found") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const Bytes image = *format::write_layer(format::LayerTree());
  const Bytes map = format::write_location_map({});
  const Digest digest = *store.put_layer(image, map);
  CHECK(store.has_layer(digest));
  CHECK(*store.put_layer(image, bytes_of("another map")) == digest);
  CHECK(*store.read_layer_map(digest) == map);
  CHECK(*store.read_layer_image(digest) == image);
  CHECK(*store.list_layers() == std::vector{digest});
  CHECK(count_files(store.tmp_dir()) == 0);
  damage(store.layer_image_path(digest), 2000, "\xff");
  CHECK(store.read_layer_image(digest).error().code == ErrorCode::corrupt);
  CHECK_THAT(message_of(store.read_layer_image(digest)), Catch::Contains(digest.hex()));
}

TEST_CASE(
    "what is damaged or missing of a layer or an environment is put there again, and the map when it is no good") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const Bytes image = *format::write_layer(format::LayerTree());
  const Bytes map = format::write_location_map({});
  const Digest digest = *store.put_layer(image, map);
  for (const bool gone : {false, true}) {
    if (gone)
      std::filesystem::remove(store.layer_image_path(digest));
    else
      damage(store.layer_image_path(digest), 2000, "\xff");
    REQUIRE(store.put_layer(image, map));
    CHECK(*store.read_layer_image(digest) == image);
  }
  std::filesystem::remove(store.layer_map_path(digest));
  REQUIRE(store.put_layer(image, map));
  CHECK(*store.read_layer_map(digest) == map);
  REQUIRE(store.put_layer(image, bytes_of("a better map"), Store::OldMap::replace));
  CHECK(*store.read_layer_map(digest) == bytes_of("a better map"));

  const Digest env = *store.put_env(env_of("a"));
  damage(store.env_path(env), 3, "x");
  CHECK(*store.put_env(env_of("a")) == env);
  CHECK(*store.read_env(env) == env_of("a"));
}

TEST_CASE("a trace is stored for an environment, replaced, and damage names its file") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const Digest env = digest_of("env");
  CHECK(store.read_trace(env).error().code == ErrorCode::not_found);
  REQUIRE(store.put_trace(env, {digest_of("a")}));
  REQUIRE(store.put_trace(env, {digest_of("b"), digest_of("a")}));
  CHECK(store.read_trace(env).value() == format::Trace{digest_of("b"), digest_of("a")});
  damage(store.trace_path(env), 20, "x");
  const auto read = store.read_trace(env);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::corrupt);
  CHECK_THAT(message_of(read), Catch::Contains(env.hex()));
}

TEST_CASE("lists ignore files with other names") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const Digest pack = put_pack(store, {bytes_of("x")})[0].location.pack;
  write_text(store.pack_path(pack).parent_path() / "notes.txt", "");
  write_text(store.pack_path(pack).parent_path() / fmt::format("{:g>64}.pack", ""), "");
  write_text(store.pack_path(pack).parent_path() / fmt::format("{}.pack.tmp", pack.hex()), "");
  CHECK(*store.list_packs() == std::vector{pack});
}

TEST_CASE("the index of a pack is read from its end; a damaged one names the pack") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const auto requests = put_pack(store, {bytes_of("one"), bytes_of("two")});
  const Digest pack = requests[0].location.pack;
  CHECK(store.read_pack_index(pack)->size() == 2);
  const auto size = fs::file_size(store.pack_path(pack));
  damage(store.pack_path(pack), size - 40, "????");
  CHECK(store.read_pack_index(pack).error().code == ErrorCode::corrupt);
  CHECK_THAT(message_of(store.read_pack_index(pack)), Catch::Contains(pack.hex()));
  fs::resize_file(store.pack_path(pack), 10);
  CHECK(store.read_pack_index(pack).error().code == ErrorCode::corrupt);
}

TEST_CASE("refs are written, replaced, listed in order and removed") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  REQUIRE(store.write_ref(RefKind::env, {"swe/django", "4.2"}, digest_of("1")));
  REQUIRE(store.write_ref(RefKind::env, {"swe", "latest"}, digest_of("2")));
  REQUIRE(store.write_ref(RefKind::env, {"swe/django", "4.1"}, digest_of("3")));
  REQUIRE(store.write_ref(RefKind::layer, {"base", "12"}, digest_of("4")));
  REQUIRE(store.write_ref(RefKind::env, {"swe/django", "4.2"}, digest_of("5")));
  CHECK(*store.read_ref(RefKind::env, {"swe/django", "4.2"}) == digest_of("5"));
  std::string names;
  const auto refs = store.list_refs(RefKind::env);
  REQUIRE(refs);
  for (const RefEntry& entry : *refs) names += to_string(RefKind::env, entry.ref) + " ";
  CHECK(names == "swe:latest swe/django:4.1 swe/django:4.2 ");
  CHECK(store.remove_ref(RefKind::env, {"swe/django", "4.1"}).has_value());
  CHECK(store.remove_ref(RefKind::env, {"swe/django", "4.1"}).error().code == ErrorCode::not_found);
  CHECK(store.read_ref(RefKind::env, {"swe/django", "4.1"}).error().code == ErrorCode::not_found);
  CHECK(store.list_refs(RefKind::env)->size() == 2);
}

TEST_CASE("a damaged ref is corrupt and names its file") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  REQUIRE(store.write_ref(RefKind::env, {"e", "1"}, digest_of("1")));
  const fs::path file = dir / "store/refs/env/e/1.ref";
  REQUIRE(fs::exists(file));
  for (const std::string& text :
       {std::string(), std::string("abc\n"), digest_of("1").hex(), digest_of("1").hex() + "\n\n"}) {
    write_text(file, text);
    CHECK(store.read_ref(RefKind::env, {"e", "1"}).error().code == ErrorCode::corrupt);
    CHECK_THAT(message_of(store.list_refs(RefKind::env)), Catch::Contains("1.ref"));
  }
}

TEST_CASE("resolve takes a ref, a whole digest, or a prefix that fits one") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const Digest digest = *store.put_env(env_of("a"));
  REQUIRE(store.write_ref(RefKind::env, {"swe/django", "latest"}, digest));
  CHECK(*store.resolve(RefKind::env, "swe/django") == digest);
  CHECK(*store.resolve(RefKind::env, "swe/django:latest") == digest);
  CHECK(*store.resolve(RefKind::env, digest.hex()) == digest);
  CHECK(*store.resolve(RefKind::env, digest.hex().substr(0, 6)) == digest);
  CHECK(store.resolve(RefKind::env, digest.hex().substr(0, 5)).error().code == ErrorCode::not_found);
  CHECK(store.resolve(RefKind::env, "../../etc").error().code == ErrorCode::invalid);
  CHECK(store.resolve(RefKind::layer, digest.hex()).error().code == ErrorCode::not_found);
}

TEST_CASE("a name that is not there names the nearest one, or where to look") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  REQUIRE(store.write_ref(RefKind::env, {"swe/django", "latest"}, digest_of("1")));
  const auto typo = store.resolve(RefKind::env, "swe/djagno");
  REQUIRE_FALSE(typo);
  CHECK(typo.error().code == ErrorCode::not_found);
  CHECK_THAT(typo.error().message, Catch::Contains("did you mean swe/django:latest?"));
  CHECK_THAT(message_of(store.resolve(RefKind::env, "something-else")), Catch::Contains("dsec env ls"));
}

TEST_CASE("a prefix that fits several digests is refused") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const std::string a = "aaaaaa" + std::string(58, '0');
  const std::string b = "aaaaaa" + std::string(58, '1');
  for (const std::string& name : {a, b}) {
    fs::create_directories(dir / "store/envs/aa");
    write_text(dir / "store/envs/aa" / (name + ".json"), "{}");
  }
  const auto found = store.resolve(RefKind::env, "aaaaaa");
  REQUIRE_FALSE(found);
  CHECK(found.error().code == ErrorCode::invalid);
  CHECK(store.resolve(RefKind::env, a.substr(0, 7))->hex() == a);
}

}  // namespace
}  // namespace dsec::store
