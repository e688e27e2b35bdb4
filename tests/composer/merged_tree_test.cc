// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/merged_tree.h"

#include <catch2/catch.hpp>

#include "composer/sources_support.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;
using Final = MergedTree::FinalSymlink;

TEST_CASE("layers merge: files replace, directories join, whiteouts and opaque marks are gone") {
  MergedTree merged = merged_of(
      "/a regular mode=0600\n/d directory mode=0700\n/d/x regular\n/d/y regular\n"
      "/e directory\n/e/old regular\n/f regular\n");
  REQUIRE(
      merged.apply(tree_of("/a regular mode=0644\n/d directory mode=0711\n/d/x whiteout\n/d/z regular\n"
                           "/e directory opaque\n/e/new regular\n/f directory\n/f/in regular\n")));
  CHECK(brief(merged.tree(), {"uid", "gid", "mtime", "size"}) ==
        "/a regular mode=0644\n/d directory mode=0711\n/d/y regular mode=0644\n/d/z regular mode=0644\n"
        "/e directory mode=0755\n/e/new regular mode=0644\n/f directory mode=0755\n/f/in regular mode=0644\n");
}

TEST_CASE("a file over a directory hides the whole directory") {
  MergedTree merged = merged_of("/d directory\n/d/x regular\n");
  REQUIRE(merged.apply(tree_of("/d symlink target=e\n")));
  REQUIRE(merged.apply(tree_of("/d directory\n/d/new regular\n")));
  CHECK(outline(merged.tree()) == "/d directory\n/d/new regular\n");
}

TEST_CASE("hard links of a layer stay links and cut those below") {
  MergedTree merged = merged_of("/a regular\n/b link to=/a\n/c link to=/a\n");
  REQUIRE(merged.apply(tree_of("/a regular mode=0600\n/x link to=/a\n")));
  CHECK(outline(merged.tree()) == "/a regular\n/b regular\n/c link to=/b\n/x link to=/a\n");
  CHECK(merged.tree().link_count(merged.tree().find(0, "b")) == 2);
}

TEST_CASE("the topmost root wins") {
  format::LayerTree layer = tree_of("/n regular\n");
  layer.inode(0).mode = 0700;
  MergedTree merged = merged_of("/o regular\n");
  REQUIRE(merged.apply(layer));
  CHECK(merged.tree().inode(0).mode == 0700);
  CHECK(outline(merged.tree()) == "/n regular\n/o regular\n");
}

TEST_CASE("lookups resolve symlinks inside the root") {
  const MergedTree merged = merged_of(
      "/bin symlink target=usr/bin\n/up symlink target=../../usr\n/usr directory\n"
      "/usr/bin directory\n/usr/bin/sh symlink target=/bin/dash\n/usr/bin/dash regular\n"
      "/loop symlink target=loop\n/gone symlink target=no\n");
  const auto dash = merged.lookup("/usr/bin/dash", Final::follow);
  REQUIRE(dash);
  CHECK(merged.lookup("bin/sh", Final::follow).value() == *dash);
  CHECK(merged.lookup("up/bin/../bin/./sh", Final::follow).value() == *dash);
  CHECK(merged.lookup("/../../bin/sh", Final::follow).value() == *dash);
  CHECK(merged.tree().inode(merged.lookup("/bin/sh", Final::keep).value()).type == format::FileType::symlink);
  CHECK(merged.lookup("/", Final::keep).value() == 0);
  CHECK(merged.lookup("", Final::follow).value() == 0);
}

TEST_CASE("lookups say what is wrong") {
  const MergedTree merged = merged_of("/f regular\n/loop symlink target=loop\n/gone symlink target=no\n");
  CHECK(merged.lookup("no", Final::follow).error().code == ErrorCode::not_found);
  CHECK(merged.lookup("no", Final::keep).error().code == ErrorCode::not_found);
  CHECK(merged.lookup("no/no", Final::keep).error().code == ErrorCode::not_found);
  CHECK(merged.lookup("gone", Final::follow).error().code == ErrorCode::not_found);
  CHECK(merged.lookup("gone", Final::keep));
  CHECK(merged.lookup("loop", Final::follow).error().code == ErrorCode::invalid);
  CHECK(merged.lookup("f/x", Final::keep).error().code == ErrorCode::invalid);
}
