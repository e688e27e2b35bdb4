// SPDX-License-Identifier: Apache-2.0
// Which names an environment shows: overlayfs rules (Documentation/filesystems/overlayfs.rst).
#include <catch2/catch.hpp>

#include "tree/tree_support.h"
#include "tree/tree_walk.h"

namespace dsec::tree::test {
namespace {

using Kind = ListedEntry::Kind;

// The outline of an environment of these layers, bottom to top.
std::string stitched(std::initializer_list<std::string_view> layers) {
  World world;
  Layers all;
  for (const std::string_view lines : layers) all.push_back(world.layer(lines));
  return outline(*world.env("e", std::move(all)));
}

TEST_CASE("directories of several layers are merged, files of the upper one win") {
  CHECK(stitched({"/d directory\n/d/a regular\n/d/b regular\n/f regular",
                  "/d directory\n/d/b symlink target=x\n/d/c fifo"}) ==
        "/d directory\n/d/a regular\n/d/b symlink\n/d/c fifo\n/f regular\n");
}

TEST_CASE("a whiteout hides a file, a whole directory, or nothing, and never shows") {
  CHECK(stitched({"/d directory\n/d/a regular\n/f regular", "/d whiteout\n/f whiteout\n/none whiteout"}) == "");
  CHECK(stitched({"/f whiteout\n/d directory\n/d/g whiteout"}) == "/d directory\n");
}

TEST_CASE("a whiteout acts only on layers below its own") {
  CHECK(stitched({"/f regular", "/f whiteout", "/f symlink target=x"}) == "/f symlink\n");
  CHECK(stitched({"/d directory\n/d/old regular", "/d whiteout", "/d directory\n/d/new regular"}) ==
        "/d directory\n/d/new regular\n");
}

TEST_CASE("an opaque directory hides what is below it, at the bottom, in the middle and at the top") {
  constexpr std::string_view kBottom = "/d directory\n/d/bottom regular";
  constexpr std::string_view kMiddle = "/d directory\n/d/middle regular";
  constexpr std::string_view kTop = "/d directory\n/d/top regular";
  CHECK(stitched({"/d directory opaque\n/d/bottom regular", kMiddle, kTop}) ==
        "/d directory\n/d/bottom regular\n/d/middle regular\n/d/top regular\n");
  CHECK(stitched({kBottom, "/d directory opaque\n/d/middle regular", kTop}) ==
        "/d directory\n/d/middle regular\n/d/top regular\n");
  CHECK(stitched({kBottom, kMiddle, "/d directory opaque\n/d/top regular"}) == "/d directory\n/d/top regular\n");
}

TEST_CASE("an opaque root hides all layers below") {
  World world;
  format::LayerTree upper;
  upper.inode(0).opaque = true;
  REQUIRE(upper.add(0, "new", {}));
  const auto env = world.env("e", {world.layer("/old regular"), world.layer(upper), world.layer("/top regular")});
  CHECK(outline(*env) == "/new regular\n/top regular\n");
}

TEST_CASE("a file over a directory hides it, and a directory over that starts anew") {
  CHECK(stitched({"/x directory\n/x/a regular", "/x regular"}) == "/x regular\n");
  CHECK(stitched({"/x regular", "/x directory\n/x/a regular"}) == "/x directory\n/x/a regular\n");
  CHECK(stitched({"/x directory\n/x/old regular", "/x regular", "/x directory\n/x/new regular"}) ==
        "/x directory\n/x/new regular\n");
  CHECK(stitched({"/x directory\n/x/old regular", "/x symlink target=y", "/x directory\n/x/new regular\n/x/d directory",
                  "/x directory\n/x/d directory\n/x/d/f regular"}) ==
        "/x directory\n/x/d directory\n/x/d/f regular\n/x/new regular\n");
}

TEST_CASE("a directory of one layer is pure, of several merged; what is hidden does not count") {
  World world;
  const auto env = world.env(
      "e",
      {world.layer("/both directory\n/both/in directory\n/one directory\n/opaque directory\n/white directory"),
       world.layer("/both directory\n/opaque directory opaque\n/white whiteout"), world.layer("/white directory")});
  const auto all = walk(*env);
  CHECK(all.at("/both").kind == Kind::merged);
  CHECK(all.at("/both/in").kind == Kind::pure);
  CHECK(all.at("/one").kind == Kind::pure);
  CHECK(all.at("/opaque").kind == Kind::pure);
  CHECK(all.at("/white").kind == Kind::pure);
}

TEST_CASE("a merged directory has the attributes of its uppermost layer and counts all its subdirectories") {
  World world;
  const auto env =
      world.env("e", {world.layer("/d directory mode=0700 uid=1\n/d/a directory\n/d/b directory\n/d/f regular"),
                      world.layer("/d directory mode=0711 uid=2 mtime=7.500000000\n/d/b whiteout\n/d/c directory")});
  const auto all = walk(*env);
  const Attributes& d = all.at("/d").attributes;
  CHECK(d.mode == 0711);
  CHECK(d.uid == 2);
  CHECK(d.mtime == format::Timestamp{7, 500000000});
  CHECK(d.nlink == 4);
  CHECK(all.at("").attributes.nlink == 3);
  CHECK(all.at("/d/a").attributes.nlink == 2);
}

TEST_CASE("one layer alone is shown as it is") {
  CHECK(stitched({"/d directory opaque\n/d/f regular\n/w whiteout"}) == "/d directory\n/d/f regular\n");
}

TEST_CASE("the same layer twice shows once") {
  World world;
  const auto layer = world.layer("/d directory\n/d/f regular\n/g link to=/d/f");
  const auto env = world.env("e", {layer, layer});
  CHECK(outline(*env) == "/d directory\n/d/f regular\n/g regular\n");
  CHECK(walk(*env).at("/d").kind == Kind::merged);
}

TEST_CASE("names that are no text are found and listed in byte order") {
  CHECK(stitched({"/\\xff regular\n/B regular\n/a regular", "/\\xc3\\xa9 regular\n/\\x20 regular"}) ==
        "/  regular\n/B regular\n/a regular\n/\xc3\xa9 regular\n/\xff regular\n");
}

TEST_CASE("absent names are not found; a name in a file is not either") {
  World world;
  const auto env = world.env("e", {world.layer("/f regular\n/w whiteout"), world.layer("/d directory\n/d/w whiteout")});
  Kind kind = Kind::pure;
  const Place root = place_of(*env, env->root()->id, kind);
  for (const char* name : {"none", "w", ""}) {
    const auto found = env->lookup(root, kind, name);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::not_found);
  }
}

TEST_CASE("many layers, each with a name, a whiteout of the one below and a change of it") {
  World world;
  Layers layers;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    std::string lines = fmt::format("/d directory\n/d/own{:03} regular\n/d/shared symlink target={}", i, i);
    if (i > 0) lines += fmt::format("\n/d/own{:03} whiteout", i - 1);
    layers.push_back(world.layer(lines));
  }
  CHECK(outline(*world.env("e", std::move(layers))) == "/d directory\n/d/own099 regular\n/d/shared symlink\n");
}

}  // namespace
}  // namespace dsec::tree::test
