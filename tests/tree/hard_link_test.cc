// SPDX-License-Identifier: Apache-2.0
#include "tree/hard_links.h"

#include <catch2/catch.hpp>

#include "tree/tree_support.h"
#include "tree/tree_walk.h"

namespace dsec::tree::test {
namespace {

TEST_CASE("names of one file share a node and count each other") {
  World world;
  const auto env = world.env("e", {world.layer("/a regular\n/d directory\n/d/b link to=/a\n/c regular")});
  const auto all = walk(*env);
  CHECK(all.at("/a").attributes.id == all.at("/d/b").attributes.id);
  CHECK(all.at("/a").attributes.nlink == 2);
  CHECK(all.at("/c").attributes.nlink == 1);
}

TEST_CASE("a name that a layer above hides does not count") {
  World world;
  const auto base =
      world.layer("/a regular\n/b link to=/a\n/d directory\n/d/c link to=/a\n/whole regular\n/whole2 link to=/whole");
  for (const std::string_view upper : {"/b whiteout", "/b regular", "/b directory"}) {
    const auto all = walk(*world.env(upper, {base, world.layer(upper)}));
    CHECK(all.at("/a").attributes.nlink == 2);
    CHECK(all.at("/a").attributes.id == all.at("/d/c").attributes.id);
    CHECK(all.at("/whole").attributes.nlink == 2);
  }
  const auto all = walk(*world.env("opaque", {base, world.layer("/d directory opaque\n/b whiteout")}));
  CHECK(all.at("/a").attributes.nlink == 1);
}

TEST_CASE("a file whose names are partly hidden has a number of its own in that environment") {
  World world;
  const auto base = world.layer("/a regular\n/b link to=/a\n/c regular");
  const auto whole = walk(*world.env("whole", {base}));
  const auto part = walk(*world.env("part", {base, world.layer("/b whiteout")}));
  CHECK_FALSE(whole.at("/a").attributes.id == part.at("/a").attributes.id);
  CHECK(whole.at("/c").attributes.id == part.at("/c").attributes.id);
}

TEST_CASE("all names of files with several are collected") {
  World world;
  const auto layer = world.layer(
      "/a regular\n/d directory\n/d/b link to=/a\n/d/e directory\n/d/e/f fifo\n/g link to=/d/e/f\n/x regular");
  const auto links = collect_hard_links(layer->view());
  REQUIRE(links);
  std::vector<std::vector<std::string>> groups;
  for (const auto& [nid, paths] : *links) {
    groups.push_back(paths);
    std::sort(groups.back().begin(), groups.back().end());
  }
  std::sort(groups.begin(), groups.end());
  CHECK(groups == std::vector<std::vector<std::string>>{{"a", "d/b"}, {"d/e/f", "g"}});
}

}  // namespace
}  // namespace dsec::tree::test
