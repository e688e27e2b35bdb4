// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <random>

#include "format/dump.h"
#include "format/erofs.h"
#include "format/trees.h"

using namespace dsec;
using namespace dsec::format;

namespace {

Bytes image_of(const LayerTree& tree) {
  auto image = write_layer(tree);
  INFO((image ? "" : image.error().message));
  REQUIRE(image);
  return std::move(*image);
}

// tree -> image -> tree -> text is the text of the tree.
void check_round_trip(const LayerTree& tree) {
  const Bytes image = image_of(tree);
  const auto again = read_layer(image);
  INFO((again ? "" : again.error().message));
  REQUIRE(again);
  CHECK(dump_layer(*again) == dump_layer(tree));
}

Result<Bytes> image_with(Inode inode) {
  LayerTree tree;
  REQUIRE(tree.add(LayerTree::root(), "it", std::move(inode)));
  return write_layer(tree);
}

Inode file_of(std::uint64_t size) {
  Inode inode;
  inode.size = size;
  if (size > 0) inode.object = sha256(as_bytes("content"));
  return inode;
}

Inode of_type(FileType type) {
  Inode inode;
  inode.type = type;
  if (type == FileType::symlink) inode.target = "to";
  return inode;
}

void check_refused(Inode inode, const char* because) {
  const auto image = image_with(std::move(inode));
  INFO("must be refused: " << because);
  REQUIRE_FALSE(image);
  CHECK(image.error().code == ErrorCode::invalid);
  CHECK(image.error().message.find("/it: ") == 0);
  CHECK(image.error().message.find(because) != std::string::npos);
}

}  // namespace

TEST_CASE("a tree comes back from its image as it was") {
  for (const char* name : {"empty", "tiny", "zoo"}) {
    INFO(name);
    check_round_trip(dsec::format::test::golden_tree(name));
  }
}

TEST_CASE("random trees come back from their images as they were") {
  const std::uint64_t first = GENERATE(0u, 1000u);
  const std::size_t names = first == 0 ? 10 : 400;
  for (std::uint64_t seed = first; seed < first + (first == 0 ? 150 : 6); ++seed) {
    INFO("seed " << seed << ", " << names << " names");
    check_round_trip(dsec::format::test::random_tree(seed, names));
  }
}

TEST_CASE("equal trees give equal images, whatever way they were built") {
  LayerTree forward;
  LayerTree backward;
  for (int i = 0; i < 50; ++i) REQUIRE(forward.add(LayerTree::root(), fmt::format("n{}", i), file_of(i)));
  REQUIRE(backward.add(LayerTree::root(), "gone", of_type(FileType::directory)));
  for (int i = 49; i >= 0; --i) REQUIRE(backward.add(LayerTree::root(), fmt::format("n{}", i), file_of(i)));
  backward.remove(LayerTree::root(), "gone");
  CHECK((image_of(forward) == image_of(backward)));
}

TEST_CASE("directories around the size of a block come back as they were") {
  // A name of n bytes takes 12 + n; "." and ".." take 27.
  for (const std::size_t length : {3u, 20u, 255u}) {
    const std::size_t full = (4096 - 27) / (12 + length);
    for (std::size_t count = full - 2; count <= full + 2; ++count) {
      LayerTree tree;
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(tree.add(LayerTree::root(), fmt::format("{:0{}}", i, length), of_type(FileType::fifo)));
      }
      check_round_trip(tree);
    }
  }
}

TEST_CASE("a root directory of any size comes back as it was") {
  for (const std::size_t count : {1u, 100u, 130u, 150u, 180u, 200u, 205u, 300u}) {
    LayerTree tree;
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(tree.add(LayerTree::root(), fmt::format("name-{:03}", i), of_type(FileType::fifo)));
    }
    check_round_trip(tree);
    tree.inode(LayerTree::root()).xattrs["user.large"] = std::string(kMaxXattrValueBytes, 'v');
    check_round_trip(tree);
  }
}

TEST_CASE("symlinks and xattrs around the size of a block come back as they were") {
  for (const std::size_t length : {1u, 3968u, 4000u, 4031u, 4032u, 4033u, 4094u, 4095u}) {
    LayerTree tree;
    Inode link = of_type(FileType::symlink);
    link.target = std::string(length, 't');
    REQUIRE(tree.add(LayerTree::root(), "link", link));
    link.xattrs["trusted.x"] = std::string(length, 'v');
    REQUIRE(tree.add(LayerTree::root(), "link-with-xattr", link));
    check_round_trip(tree);
  }
}

TEST_CASE("the deepest tree that is allowed comes back as it was") {
  LayerTree tree;
  InodeId at = LayerTree::root();
  for (std::size_t depth = 0; depth < kMaxDepth; ++depth) {
    const auto next = tree.add(at, "d", of_type(FileType::directory));
    REQUIRE(next);
    at = *next;
  }
  CHECK_FALSE(tree.add(at, "d", of_type(FileType::directory)));
  REQUIRE(tree.add(at, "f", file_of(1)));
  const auto again = read_layer(image_of(tree));
  REQUIRE(again);
  CHECK((image_of(*again) == image_of(tree)));
}

TEST_CASE("the limits of an inode are refused with its path") {
  Inode inode = file_of(1);
  inode.mode = 010000;
  check_refused(inode, "permission bits");
  inode = file_of(1);
  inode.uid = kNoOwner;
  check_refused(inode, "owner 4294967295");
  inode = file_of(1);
  inode.gid = kNoOwner;
  check_refused(inode, "owner 4294967295");
  inode = file_of(1);
  inode.mtime.nsec = 1000000000;
  check_refused(inode, "a second");
  check_refused(file_of(kMaxFileBytes + 1), "more than a file can have");
  inode = file_of(0);
  inode.object = sha256({});
  check_refused(inode, "if, and only if, it has content");
  inode = file_of(1);
  inode.object = {};
  check_refused(inode, "if, and only if, it has content");
  inode = of_type(FileType::block_device);
  inode.major = kMaxMajor + 1;
  check_refused(inode, "device 4096:0");
  inode = of_type(FileType::char_device);
  inode.minor = kMaxMinor + 1;
  check_refused(inode, "device 0:1048576");
  inode = of_type(FileType::symlink);
  for (const std::string& target : {std::string(), std::string(kMaxSymlinkBytes + 1, 't'), std::string("a\0b", 3)}) {
    inode.target = target;
    check_refused(inode, "a symlink's target");
  }
  inode = of_type(FileType::whiteout);
  inode.mode = 0600;
  check_refused(inode, "a whiteout has no attributes");
  CHECK(image_with(file_of(kMaxFileBytes)));
}

TEST_CASE("attributes that the type of an inode does not have are refused, not dropped") {
  for (const FileType type : {FileType::directory, FileType::symlink, FileType::fifo}) {
    Inode inode = of_type(type);
    inode.size = 5;
    check_refused(inode, "size");
    inode = of_type(type);
    inode.object = sha256({});
    check_refused(inode, "object");
  }
  Inode inode = file_of(1);
  inode.target = "to";
  check_refused(inode, "target");
  inode = file_of(1);
  inode.opaque = true;
  check_refused(inode, "opaque");
  inode = file_of(1);
  inode.minor = 3;
  check_refused(inode, "device");
}

TEST_CASE("a tree with a limit beyond is refused at its path") {
  LayerTree tree;
  const auto directory = tree.add(LayerTree::root(), "a\nb", of_type(FileType::directory));
  REQUIRE(directory);
  Inode bad = file_of(1);
  bad.mode = 0xffff;
  REQUIRE(tree.add(*directory, "c", bad));
  const auto image = write_layer(tree);
  REQUIRE_FALSE(image);
  CHECK(image.error().message.find("/a\\x0ab/c: ") == 0);
}

namespace {

// Compares everything that the view says of one inode with the tree.
void check_inode(const ErofsView& view, const InodeView& seen, const LayerTree& tree, InodeId id) {
  const Inode& inode = tree.inode(id);
  CHECK(seen.type == inode.type);
  CHECK(seen.mode == inode.mode);
  CHECK(seen.uid == inode.uid);
  CHECK(seen.gid == inode.gid);
  CHECK(seen.mtime == inode.mtime);
  CHECK(seen.major == inode.major);
  CHECK(seen.minor == inode.minor);
  CHECK(seen.nlink == tree.link_count(id));
  if (inode.type == FileType::whiteout) return;
  CHECK(view.xattrs(seen, XattrView::plain).value() == inode.xattrs);
  if (inode.type == FileType::regular) CHECK(seen.size == inode.size);
  if (inode.type == FileType::regular) CHECK(view.object(seen).value() == inode.object);
  if (inode.type == FileType::symlink) CHECK(view.symlink_target(seen).value() == inode.target);
  if (inode.type == FileType::directory) CHECK(view.is_opaque(seen).value() == inode.opaque);
}

void check_directory(const ErofsView& view, const InodeView& directory, const LayerTree& tree, InodeId id) {
  std::vector<std::string> names;
  REQUIRE(view.for_each_entry(directory, [&](const DirentView& entry) {
    names.emplace_back(entry.name);
    return true;
  }));
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(names.size() == tree.children(id).size() + 2);
  CHECK(view.lookup(directory, "no such name").error().code == ErrorCode::not_found);
  CHECK(view.lookup(directory, ".").value() == directory.nid);
  for (const auto& [name, child] : tree.children(id)) {
    const auto nid = view.lookup(directory, name);
    REQUIRE(nid);
    const auto inode = view.inode(*nid);
    REQUIRE(inode);
    check_inode(view, *inode, tree, child);
    if (inode->type == FileType::directory) check_directory(view, *inode, tree, child);
  }
}

}  // namespace

TEST_CASE("the view reads from an image what the tree holds") {
  const std::string name = GENERATE("empty", "tiny", "zoo", "random");
  const LayerTree tree =
      name == "random" ? dsec::format::test::random_tree(42, 2000) : dsec::format::test::golden_tree(name);
  const Bytes image = image_of(tree);
  const auto view = ErofsView::open(image);
  REQUIRE(view);
  const auto root = view->inode(view->root_nid());
  REQUIRE(root);
  check_inode(*view, *root, tree, LayerTree::root());
  check_directory(*view, *root, tree, LayerTree::root());
}

TEST_CASE("the volume name says whether there are xattrs and escapes") {
  const auto flags = [](Inode inode) {
    const auto image = image_with(std::move(inode));
    REQUIRE(image);
    const auto view = ErofsView::open(*image);
    REQUIRE(view);
    return std::pair(view->has_visible_xattrs(), view->has_escapes());
  };
  CHECK(flags(file_of(1)) == std::pair(false, false));
  Inode inode = file_of(1);
  inode.xattrs["user.a"] = "";
  CHECK(flags(inode) == std::pair(true, false));
  inode.xattrs["trusted.overlay.redirect"] = "x";
  CHECK(flags(inode) == std::pair(true, true));
  CHECK(flags(of_type(FileType::char_device)) == std::pair(true, true));
  inode = of_type(FileType::directory);
  inode.opaque = true;
  CHECK(flags(inode) == std::pair(false, false));
}

TEST_CASE("visiting a directory stops when the visitor says so") {
  const Bytes image = image_of(dsec::format::test::golden_tree("zoo"));
  const auto view = ErofsView::open(image);
  int seen = 0;
  REQUIRE(view->for_each_entry(view->inode(view->root_nid()).value(), [&](const DirentView&) { return ++seen < 3; }));
  CHECK(seen == 3);
}
