// SPDX-License-Identifier: Apache-2.0
// Stitching on demand against merging everything, over random stacks of layers.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "composer/sources/merged_tree.h"
#include "tree/random_stack.h"
#include "tree/tree_support.h"
#include "tree/tree_walk.h"

namespace dsec::tree::test {
namespace {

std::string describe(const Attributes& a) {
  return fmt::format("{} {:o} {}:{} nlink={} size={} {}.{} {}:{}", to_string(a.type), a.mode, a.uid, a.gid, a.nlink,
                     a.size, a.mtime.sec, a.mtime.nsec, a.major, a.minor);
}

std::string describe(const LayerTree& tree, InodeId id) {
  const Inode& i = tree.inode(id);
  Attributes a;
  a.type = i.type;
  a.mode = i.mode;
  a.uid = i.uid;
  a.gid = i.gid;
  a.nlink = tree.link_count(id);
  a.size = i.type == FileType::symlink ? i.target.size() : i.size;
  a.mtime = i.mtime;
  a.major = i.major;
  a.minor = i.minor;
  return describe(a);
}

void flatten(const LayerTree& tree, InodeId id, const std::string& path, std::map<std::string, std::string>& all,
             std::map<std::string, InodeId>& inodes) {
  all[path] = describe(tree, id);
  inodes[path] = id;
  if (tree.inode(id).type != FileType::directory) return;
  for (const auto& [name, child] : tree.children(id)) flatten(tree, child, path + "/" + name, all, inodes);
}

void compare(std::uint64_t seed, std::size_t depth) {
  INFO("DSEC_SEED=" << seed << ", " << depth << " layers");
  World world;
  composer::MergedTree merged;
  Layers layers;
  for (const LayerTree& tree : random_stack(seed, depth)) {
    REQUIRE(merged.apply(tree));
    layers.push_back(world.layer(tree));
  }
  std::map<std::string, std::string> expected;
  std::map<std::string, InodeId> inodes;
  flatten(merged.tree(), LayerTree::root(), "", expected, inodes);
  std::map<std::string, std::string> found;
  std::map<InodeId, std::uint64_t> numbers;
  for (const auto& [path, seen] : walk(*world.env("e", std::move(layers)))) {
    Attributes attributes = seen.attributes;
    if (attributes.type == FileType::directory) attributes.size = 0;  // of its data in the image
    found[path] = describe(attributes);
    // Two paths have one number exactly when they are names of one file.
    const auto known = numbers.emplace(inodes[path], attributes.id.value()).first;
    CHECK(known->second == attributes.id.value());
  }
  CHECK(found == expected);
  std::set<std::uint64_t> distinct;
  for (const auto& [inode, number] : numbers) distinct.insert(number);
  CHECK(distinct.size() == numbers.size());
}

TEST_CASE("random stacks show what merging all layers gives") {
  if (const char* seed = std::getenv("DSEC_SEED")) return compare(std::strtoull(seed, nullptr, 10), 4);
  for (std::uint64_t seed = 1; seed <= 60; ++seed) compare(seed, 1 + seed % 6);
}

}  // namespace
}  // namespace dsec::tree::test
