// SPDX-License-Identifier: Apache-2.0
// Environments as one layer: what stitching shows, all of it and nothing else.
#include "tree/merged_tree.h"

#include <catch2/catch.hpp>
#include <map>

#include "format/dump.h"
#include "tree/random_stack.h"
#include "tree/tree_support.h"
#include "tree/tree_walk.h"

namespace dsec::tree::test {
namespace {

const auto kNever = [] { return false; };

// The dump of layers (bottom to top) merged, without the root's line.
std::string merged(const Layers& layers) {
  const auto tree = merged_tree(layers, kNever);
  if (!tree) FAIL(tree.error().message);
  std::string text = format::dump_layer(*tree);
  return text.substr(text.find('\n') + 1);
}

std::string merged(std::initializer_list<std::string_view> stack) {
  World world;
  Layers layers;
  for (const std::string_view lines : stack) layers.push_back(world.layer(lines));
  return merged(layers);
}

constexpr std::string_view kFile = " regular mode=0644 uid=0 gid=0 mtime=0\n";
constexpr std::string_view kDirectory = " directory mode=0755 uid=0 gid=0 mtime=0\n";
std::string file(std::string_view path) { return fmt::format("{}{}", path, kFile); }
std::string directory(std::string_view path) { return fmt::format("{}{}", path, kDirectory); }

TEST_CASE("one layer is itself") {
  World world;
  const std::string lines =
      "/d directory mode=0700 uid=1 gid=2 mtime=3.000000004 xattr:user.a=b\n/d/f regular mode=04755 uid=0 gid=0 "
      "mtime=-1"
      "\n/fifo fifo mode=0600 uid=0 gid=0 mtime=0\n/l symlink mode=0777 uid=0 gid=0 mtime=0 target=d/f\n"
      "/null char_device mode=0666 uid=0 gid=0 mtime=0 device=1:3\n/s socket mode=0644 uid=0 gid=0 mtime=0\n"
      "/sda block_device mode=0660 uid=0 gid=6 mtime=0 device=8:0\n";
  const LayerTree tree = *format::parse_dump("/ directory mode=0711 uid=7 gid=8 mtime=9\n" + lines);
  const auto again = merged_tree(Layers{world.layer(tree)}, kNever);
  REQUIRE(again);
  CHECK(format::dump_layer(*again) == format::dump_layer(tree));
}

TEST_CASE("whiteouts hide and are gone, also those that hide nothing") {
  CHECK(merged({"/a regular\n/b directory\n/b/c regular\n/k regular", "/a whiteout\n/b whiteout\n/none whiteout"}) ==
        file("/k"));
}

TEST_CASE("a directory in several layers is one, with the attributes of the uppermost") {
  CHECK(merged({"/d directory mode=0700 uid=1 mtime=5 xattr:user.low=1\n/d/low regular",
                "/d directory mode=0711 gid=2 mtime=6 xattr:user.high=2\n/d/high regular"}) ==
        "/d directory mode=0711 uid=0 gid=2 mtime=6 xattr:user.high=2\n" + file("/d/high") + file("/d/low"));
}

TEST_CASE("an opaque directory hides what is below it and is not opaque any more") {
  CHECK(merged({"/d directory\n/d/lowest regular", "/d directory opaque\n/d/middle regular",
                "/d directory\n/d/top regular"}) == directory("/d") + file("/d/middle") + file("/d/top"));
}

TEST_CASE("an opaque root hides all layers below it") {
  World world;
  LayerTree opaque;
  opaque.inode(LayerTree::root()).opaque = true;
  REQUIRE(opaque.add(LayerTree::root(), "middle", {}));
  const auto tree =
      merged_tree(Layers{world.layer("/low regular"), world.layer(opaque), world.layer("/high regular")}, kNever);
  REQUIRE(tree);
  CHECK(tree->find(LayerTree::root(), "low") == LayerTree::kNone);
  CHECK(tree->children(LayerTree::root()).size() == 2);
  CHECK_FALSE(tree->inode(LayerTree::root()).opaque);
}

TEST_CASE("a directory over a file and a file over a directory cut off what is below them") {
  CHECK(merged({"/x directory\n/x/hidden regular\n/y regular", "/x regular\n/y directory\n/y/a regular",
                "/x directory\n/x/b regular\n/y regular"}) == directory("/x") + file("/x/b") + file("/y"));
}

TEST_CASE("names of one inode stay links of each other, as many as show") {
  const std::string links = "/a regular\n/b link to=/a\n/c link to=/a\n/d directory\n/d/e link to=/a";
  CHECK(merged({links, "/a whiteout\n/d directory opaque"}) == file("/b") + "/c link to=/b\n" + directory("/d"));
  CHECK(merged({links, "/b regular mode=0600"}) == file("/a") +
                                                       "/b regular mode=0600 uid=0 gid=0 mtime=0\n/c link to=/a\n" +
                                                       directory("/d") + "/d/e link to=/a\n");
}

TEST_CASE("links of different layers are different inodes") {
  CHECK(merged({"/a regular\n/b link to=/a", "/c regular\n/d link to=/c"}) ==
        file("/a") + "/b link to=/a\n" + file("/c") + "/d link to=/c\n");
}

TEST_CASE("a layer that is there twice shows where it is uppermost, links included") {
  World world;
  const auto twice = world.layer("/a regular\n/b link to=/a\n/d directory mode=0700");
  const auto between = world.layer("/a whiteout\n/d directory mode=0711\n/d/f regular");
  CHECK(merged(Layers{twice, between, twice}) ==
        file("/a") + "/b link to=/a\n/d directory mode=0700 uid=0 gid=0 mtime=0\n" + file("/d/f"));
}

TEST_CASE("objects, sizes and xattrs of files are those of their layer") {
  World world;
  const Layers layers{world.layer("/f regular content=low xattr:user.mime=text"),
                      world.layer("/g regular content=high")};
  const auto tree = merged_tree(layers, kNever);
  REQUIRE(tree);
  const Inode& low = tree->inode(tree->find(LayerTree::root(), "f"));
  CHECK(low.size == 3);
  CHECK(low.object == sha256(as_bytes("low")));
  CHECK(low.xattrs == format::Xattrs{{"user.mime", "text"}});
  CHECK(tree->inode(tree->find(LayerTree::root(), "g")).object == sha256(as_bytes("high")));
}

LayerTree chain(std::size_t depth, std::string_view leaf) {
  LayerTree tree;
  InodeId at = LayerTree::root();
  for (std::size_t i = 0; i < depth; ++i) at = tree.add(at, "d", {.type = FileType::directory, .mode = 0755}).value();
  REQUIRE(tree.add(at, leaf, {}));
  return tree;
}

TEST_CASE("directories may be as deep as a layer's") {
  World world;
  LayerTree both = chain(format::kMaxDepth, "low");
  InodeId at = LayerTree::root();
  for (std::size_t i = 0; i < format::kMaxDepth; ++i) at = both.find(at, "d");
  REQUIRE(both.add(at, "high", {}));
  const auto tree = merged_tree(
      Layers{world.layer(chain(format::kMaxDepth, "low")), world.layer(chain(format::kMaxDepth, "high"))}, kNever);
  REQUIRE(tree);
  CHECK(format::dump_layer(*tree) == format::dump_layer(both));
}

TEST_CASE("what overlayfs would act on is refused") {
  World world;
  const auto refused = merged_tree(Layers{world.layer("/f regular"), world.layer("/d char_device device=0:0")}, kNever);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
}

TEST_CASE("it stops between two directories") {
  World world;
  int asked = 0;
  const auto stopped =
      merged_tree(Layers{world.layer("/a directory\n/b directory\n/c directory")}, [&] { return ++asked == 3; });
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == ErrorCode::unavailable);
  CHECK(asked == 3);
}

std::string describe(const EnvTree& env, const Attributes& a) {
  auto kind = ListedEntry::Kind::pure;
  const Place place = place_of(env, a.id, kind);
  const format::ErofsView& image = env.layers()[place.layer]->view();
  const auto inode = image.inode(place.nid).value();
  std::string text = fmt::format("{} {:o} {}:{} nlink={} {}.{} {}:{}", to_string(a.type), a.mode, a.uid, a.gid, a.nlink,
                                 a.mtime.sec, a.mtime.nsec, a.major, a.minor);
  if (a.type == FileType::regular) text += fmt::format(" {} {}", a.size, image.object(inode).value().hex());
  if (a.type == FileType::symlink) text += " " + image.symlink_target(inode).value();
  const format::Xattrs xattrs = env.xattrs(place).value();
  for (const auto& [name, value] : xattrs) text += fmt::format(" {}={}", name, value);
  return text;
}

void compare(std::uint64_t seed, std::size_t depth) {
  INFO("DSEC_SEED=" << seed << ", " << depth << " layers");
  World world;
  Layers layers;
  for (const LayerTree& tree : random_stack(seed, depth, Contents::some)) layers.push_back(world.layer(tree));
  if (depth > 2) layers.push_back(layers[seed % depth]);
  const auto one = merged_tree(layers, kNever);
  if (!one) FAIL(one.error().message);
  const auto stitched = world.env("stitched", layers);
  const auto merged = world.env("merged", {world.layer(*one)});
  const auto expected = walk(*stitched);
  const auto found = walk(*merged);
  std::map<std::uint64_t, std::uint64_t> numbers;
  REQUIRE(found.size() == expected.size());
  for (const auto& [path, seen] : expected) {
    INFO(path);
    REQUIRE(found.count(path) == 1);
    const Attributes& other = found.at(path).attributes;
    CHECK(describe(*merged, other) == describe(*stitched, seen.attributes));
    CHECK(numbers.emplace(seen.attributes.id.value(), other.id.value()).first->second == other.id.value());
  }
  CHECK(one->capacity() == numbers.size());  // nothing that does not show
}

TEST_CASE("random stacks merged are what stitching shows") {
  if (const char* seed = std::getenv("DSEC_SEED")) return compare(std::strtoull(seed, nullptr, 10), 4);
  for (std::uint64_t seed = 1; seed <= 60; ++seed) compare(seed, 1 + seed % 6);
}

}  // namespace
}  // namespace dsec::tree::test
