// SPDX-License-Identifier: Apache-2.0
#include "format/layer_tree.h"

#include <catch2/catch.hpp>

using namespace dsec;
using namespace dsec::format;

namespace {

Inode of_type(FileType type) {
  Inode inode;
  inode.type = type;
  return inode;
}

InodeId add(LayerTree& tree, InodeId directory, std::string_view name, FileType type) {
  const auto id = tree.add(directory, name, of_type(type));
  REQUIRE(id);
  return *id;
}

}  // namespace

TEST_CASE("an empty tree is a root directory") {
  const LayerTree tree;
  CHECK(tree.inode(LayerTree::root()).type == FileType::directory);
  CHECK(tree.inode(LayerTree::root()).mode == 0755);
  CHECK(tree.children(LayerTree::root()).empty());
  CHECK(tree.link_count(LayerTree::root()) == 2);
}

TEST_CASE("a name that is added again is replaced with all below it") {
  LayerTree tree;
  const InodeId directory = add(tree, LayerTree::root(), "d", FileType::directory);
  const InodeId kept = add(tree, directory, "kept", FileType::regular);
  REQUIRE(tree.link(LayerTree::root(), "other", kept));
  CHECK(tree.link_count(kept) == 2);
  const InodeId file = add(tree, LayerTree::root(), "d", FileType::regular);
  CHECK(tree.find(LayerTree::root(), "d") == file);
  CHECK(tree.link_count(kept) == 1);
  CHECK(tree.link_count(LayerTree::root()) == 2);
}

TEST_CASE("a link that replaces the last name of its target keeps it") {
  LayerTree tree;
  const InodeId directory = add(tree, LayerTree::root(), "d", FileType::directory);
  const InodeId file = add(tree, directory, "f", FileType::fifo);
  REQUIRE(tree.link(LayerTree::root(), "d", file));
  CHECK(tree.find(LayerTree::root(), "d") == file);
  CHECK(tree.link_count(file) == 1);
  CHECK(tree.inode(file).type == FileType::fifo);
  REQUIRE(tree.link(LayerTree::root(), "d", file));  // under a name that it has already
  CHECK(tree.link_count(file) == 1);
}

TEST_CASE("link counts are those of a file system") {
  LayerTree tree;
  const InodeId directory = add(tree, LayerTree::root(), "d", FileType::directory);
  add(tree, directory, "e", FileType::directory);
  add(tree, directory, "f", FileType::regular);
  CHECK(tree.link_count(LayerTree::root()) == 3);
  CHECK(tree.link_count(directory) == 3);
  tree.remove(directory, "e");
  tree.remove(directory, "absent");
  CHECK(tree.link_count(directory) == 2);
}

TEST_CASE("F-26: names that no directory can hold are refused") {
  LayerTree tree;
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("a\0b", 3), std::string(256, 'n')}) {
    const auto id = tree.add(LayerTree::root(), name, Inode{});
    REQUIRE_FALSE(id);
    CHECK(id.error().code == ErrorCode::invalid);
  }
  CHECK(tree.add(LayerTree::root(), std::string(255, 'n'), Inode{}));
  CHECK(tree.add(LayerTree::root(), "...", Inode{}));
}

TEST_CASE("nothing can be added below something that is no directory") {
  LayerTree tree;
  const InodeId file = add(tree, LayerTree::root(), "f", FileType::regular);
  CHECK(tree.add(file, "x", Inode{}).error().code == ErrorCode::invalid);
  CHECK(tree.link(file, "x", file).error().code == ErrorCode::invalid);
  CHECK(tree.find(file, "x") == LayerTree::kNone);
}

TEST_CASE("F-27: directories and whiteouts have one name") {
  LayerTree tree;
  const InodeId directory = add(tree, LayerTree::root(), "d", FileType::directory);
  const InodeId whiteout = add(tree, LayerTree::root(), "w", FileType::whiteout);
  CHECK_FALSE(tree.link(LayerTree::root(), "x", directory));
  CHECK_FALSE(tree.link(directory, "x", LayerTree::root()));
  CHECK_FALSE(tree.link(LayerTree::root(), "x", whiteout));
}
