// SPDX-License-Identifier: Apache-2.0
// What overlayfs would take for its own: plain for people, escaped for an overlay above.
#include <catch2/catch.hpp>

#include "tree/tree_support.h"
#include "tree/tree_walk.h"

namespace dsec::tree::test {
namespace {

using format::XattrView;

constexpr std::string_view kLines =
    "/null char_device device=0:0\n/real char_device device=1:3\n/plain regular content=x\n"
    "/marked regular content=x xattr:trusted.overlay.opaque=y xattr:user.a=1\n/user regular content=x xattr:user.a=1";

format::Xattrs xattrs_of(const EnvTree& env, const std::string& path) {
  ListedEntry::Kind kind = ListedEntry::Kind::pure;
  return *env.xattrs(place_of(env, walk(env).at(path).attributes.id, kind));
}

TEST_CASE("the plain view shows what was composed") {
  World world;
  const auto env = world.env("e", {world.layer(kLines)});
  CHECK(env->has_xattrs());
  const auto all = walk(*env);
  CHECK(all.at("/null").attributes.type == FileType::char_device);
  CHECK(all.at("/real").attributes.major == 1);
  CHECK(xattrs_of(*env, "/marked") == format::Xattrs{{"trusted.overlay.opaque", "y"}, {"user.a", "1"}});
  CHECK(xattrs_of(*env, "/plain").empty());
}

TEST_CASE("the overlay view escapes a 0:0 device and the names of overlayfs") {
  World world;
  const auto env = world.env("e", {world.layer(kLines)}, XattrView::overlay);
  const auto all = walk(*env);
  CHECK(all.at("/null").attributes.type == FileType::regular);
  CHECK(all.at("/null").attributes.size == 0);
  CHECK(all.at("/real").attributes.type == FileType::char_device);
  const auto marked = xattrs_of(*env, "/marked");
  CHECK(marked.count("trusted.overlay.overlay.opaque") == 1);
  CHECK(marked.count("trusted.overlay.opaque") == 0);
  CHECK(marked.count("user.a") == 1);
}

TEST_CASE("a file that looks different in the views has different numbers, others share theirs") {
  World world;
  const auto layer = world.layer(kLines);
  const auto plain = walk(*world.env("e", {layer}));
  const auto overlay = walk(*world.env("e", {layer}, XattrView::overlay));
  for (const char* path : {"/null", "/marked"})
    CHECK_FALSE(plain.at(path).attributes.id == overlay.at(path).attributes.id);
  for (const char* path : {"/real", "/plain", "/user"})
    CHECK(plain.at(path).attributes.id == overlay.at(path).attributes.id);
}

TEST_CASE("whiteouts act in both views; a 0:0 device of an image does not hide anything") {
  World world;
  const Layers layers{world.layer("/a regular\n/b regular"), world.layer("/a whiteout\n/b char_device device=0:0")};
  CHECK(outline(*world.env("e", layers)) == "/b char_device\n");
  CHECK(outline(*world.env("e", layers, XattrView::overlay)) == "/b regular\n");
}

TEST_CASE("our own marks never show") {
  World world;
  const Layers layers{world.layer("/d directory\n/d/f regular content=x"),
                      world.layer("/d directory opaque\n/d/g regular content=y")};
  for (const XattrView view : {XattrView::plain, XattrView::overlay}) {
    const auto env = world.env("e", layers, view);
    CHECK_FALSE(env->has_xattrs());
    CHECK(xattrs_of(*env, "/d").empty());
    CHECK(xattrs_of(*env, "/d/g").empty());
  }
}

}  // namespace
}  // namespace dsec::tree::test
