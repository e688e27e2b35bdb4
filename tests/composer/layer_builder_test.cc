// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/layer_builder.h"

#include <catch2/catch.hpp>

#include "composer/sources_support.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;
using Catch::Contains;
using format::FileType;
using format::Inode;

namespace {

Inode file(std::uint16_t mode = 0644) { return {.type = FileType::regular, .mode = mode}; }
Inode directory(std::uint16_t mode = 0755) { return {.type = FileType::directory, .mode = mode}; }
Inode symlink(std::string target) { return {.type = FileType::symlink, .mode = 0777, .target = std::move(target)}; }

// A builder on a tree of its own.
struct Build {
  explicit Build(std::string_view lines_below = {}, BuilderOptions options = {})
      : below(merged_of(lines_below)), builder(make(std::move(options))) {}

  LayerBuilder make(BuilderOptions options) {
    auto made = LayerBuilder::create(layer, &below, std::move(options));
    if (!made) FAIL(made.error().message);
    return std::move(*made);
  }
  std::string result() {
    REQUIRE(builder.resolve({}));
    return outline(layer);
  }

  format::LayerTree layer;
  MergedTree below;
  LayerBuilder builder;
};

}  // namespace

TEST_CASE("names lose a leading slash, dots and repeated slashes") {
  Build build;
  REQUIRE(build.builder.add("/etc//./passwd", file()));
  REQUIRE(build.builder.add("./usr/", directory()));
  CHECK(build.result() == "/etc directory\n/etc/passwd regular\n/usr directory\n");
}

TEST_CASE("names that cannot be are refused and named") {
  Build build;
  CHECK_THAT(message_of(build.builder.add("a/../b", file())), Contains("entry \"a/../b\"") && Contains(".."));
  CHECK_THAT(message_of(build.builder.add("..", directory())), Contains(".."));
  CHECK_THAT(message_of(build.builder.add("", file())), Contains("empty"));
  CHECK_THAT(message_of(build.builder.add(std::string_view("a\0b", 3), file())), Contains("NUL"));
  CHECK_THAT(message_of(build.builder.add(std::string(256, 'n'), file())), Contains("256 bytes"));
  std::string longest;
  for (int i = 0; i < 42; ++i) longest += std::string(99, 'd') + "/";
  CHECK_THAT(message_of(build.builder.add(longest + "f", file())), Contains("4201 bytes"));
  CHECK(build.builder.add(std::string(255, 'n'), file()));
}

TEST_CASE("the root takes attributes and nothing else") {
  Build build;
  REQUIRE(build.builder.add("./", directory(0700)));
  CHECK(build.layer.inode(0).mode == 0700);
  CHECK_THAT(message_of(build.builder.add(".", file())), Contains("root"));
  CHECK_THAT(message_of(build.builder.add("/", symlink("/etc"))), Contains("root"));
}

TEST_CASE("a layer that does not name the root keeps the root below") {
  MergedTree below;
  format::LayerTree base;
  base.inode(0).mode = 0711;
  base.inode(0).uid = 7;
  REQUIRE(below.apply(base));
  format::LayerTree layer;
  REQUIRE(LayerBuilder::create(layer, &below));
  CHECK(layer.inode(0) == base.inode(0));
}

TEST_CASE("an unnamed parent has the attributes below, or plain ones") {
  Build build("/opt directory mode=0750 uid=3 gid=4 mtime=5.000000006 xattr:user.a=b\n");
  REQUIRE(build.builder.add("opt/new/file", file()));
  REQUIRE(build.builder.resolve({}));
  CHECK(brief(build.layer, {}) ==
        "/opt directory mode=0750 uid=3 gid=4 mtime=5.000000006 xattr:user.a=b\n"
        "/opt/new directory mode=0755 uid=0 gid=0 mtime=0\n"
        "/opt/new/file regular mode=0644 uid=0 gid=0 mtime=0\n");
}

TEST_CASE("a parent that is a symlink below is followed") {
  Build build("/lib symlink target=usr/lib\n/usr directory\n/usr/lib directory mode=0711\n");
  REQUIRE(build.builder.add("lib/x.so", file()));
  CHECK(build.result() == "/usr directory\n/usr/lib directory\n/usr/lib/x.so regular\n");
}

TEST_CASE("a parent that is a symlink of this layer is followed") {
  Build build;
  REQUIRE(build.builder.add("usr/lib", directory()));
  REQUIRE(build.builder.add("lib", symlink("usr/lib")));
  REQUIRE(build.builder.add("lib/x.so", file()));
  CHECK(build.result() == "/lib symlink target=usr/lib\n/usr directory\n/usr/lib directory\n/usr/lib/x.so regular\n");
}

TEST_CASE("absolute symlinks and \"..\" stay inside the root") {
  Build build(
      "/a symlink target=/etc\n/b symlink target=../../../etc\n/etc directory\n/d directory\n"
      "/d/up symlink target=../../etc\n");
  REQUIRE(build.builder.add("a/one", file()));
  REQUIRE(build.builder.add("b/two", file()));
  REQUIRE(build.builder.add("d/up/three", file()));
  CHECK(build.result() == "/etc directory\n/etc/one regular\n/etc/three regular\n/etc/two regular\n");
}

TEST_CASE("a parent that dangles, loops or is a file is an error that names the entry") {
  Build build("/gone symlink target=no/such\n/loop symlink target=loop\n/file regular\n/tofile symlink target=file\n");
  CHECK_THAT(message_of(build.builder.add("gone/x", file())),
             Contains("entry \"gone/x\"") && Contains("does not exist"));
  CHECK_THAT(message_of(build.builder.add("loop/x", file())), Contains("symlinks"));
  CHECK_THAT(message_of(build.builder.add("file/x", file())), Contains("\"file\"") && Contains("regular"));
  CHECK_THAT(message_of(build.builder.add("tofile/x", file())), Contains("regular"));
  CHECK(build.builder.add("gone/x", file()).error().code == ErrorCode::invalid);
}

TEST_CASE("the last component is replaced, never followed") {
  Build build("/etc directory\n/etc/passwd regular\n");
  REQUIRE(build.builder.add("a", symlink("/etc/passwd")));
  REQUIRE(build.builder.add("a", file()));
  CHECK(build.result() == "/a regular\n");
}

TEST_CASE("a directory over a directory takes the attributes and keeps the children") {
  Build build;
  REQUIRE(build.builder.add("d/x", file()));
  REQUIRE(build.builder.add("d", directory(0700)));
  CHECK(build.result() == "/d directory\n/d/x regular\n");
  CHECK(build.layer.inode(build.layer.find(0, "d")).mode == 0700);
}

TEST_CASE("a directory over a symlink below replaces it") {
  Build build("/usr directory\n/usr/lib directory\n/lib symlink target=usr/lib\n/f regular\n");
  REQUIRE(build.builder.add("lib", directory()));
  REQUIRE(build.builder.add("lib/x", file()));
  REQUIRE(build.builder.add("f", directory()));
  CHECK(build.result() == "/f directory\n/lib directory\n/lib/x regular\n");
}

TEST_CASE("the last of several entries with one name wins") {
  Build build;
  REQUIRE(build.builder.add("f", file()));
  REQUIRE(build.builder.add("f", directory()));
  REQUIRE(build.builder.add("f/x", file()));
  REQUIRE(build.builder.add("f", symlink("x")));
  REQUIRE(build.builder.add("f", file(0600)));
  CHECK(build.result() == "/f regular\n");
}

TEST_CASE("a hard link keeps the old file when its first name is replaced") {
  Build build;
  const auto old = build.builder.add("f", file());
  REQUIRE(old);
  build.builder.set_content(*old, 3, 0);
  REQUIRE(build.builder.link("h", "f"));
  const auto young = build.builder.add("f", file());
  REQUIRE(young);
  build.builder.set_content(*young, 4, 1);
  REQUIRE(build.builder.resolve({sha256(as_bytes("old")), sha256(as_bytes("new!"))}));
  CHECK(build.layer.inode(build.layer.find(0, "h")).object == sha256(as_bytes("old")));
  CHECK(build.layer.inode(build.layer.find(0, "f")).object == sha256(as_bytes("new!")));
  CHECK(build.layer.link_count(build.layer.find(0, "h")) == 1);
}

TEST_CASE("contents of replaced files are forgotten") {
  Build build;
  build.builder.set_content(*build.builder.add("f", file()), 3, 0);
  REQUIRE(build.builder.add("f", symlink("x")));
  REQUIRE(build.builder.resolve({sha256(as_bytes("old"))}));
  CHECK(outline(build.layer) == "/f symlink target=x\n");
}

TEST_CASE("hard links work for symlinks, devices and FIFOs") {
  Build build;
  REQUIRE(build.builder.add("s", symlink("t")));
  REQUIRE(build.builder.add("c", Inode{.type = FileType::char_device, .major = 1, .minor = 3}));
  REQUIRE(build.builder.add("p", Inode{.type = FileType::fifo}));
  for (const char* name : {"s", "c", "p"}) REQUIRE(build.builder.link(std::string(name) + "2", name));
  CHECK(build.result() ==
        "/c char_device device=1:3\n/c2 link to=/c\n/p fifo\n/p2 link to=/p\n/s symlink target=t\n/s2 link to=/s\n");
}

TEST_CASE("a hard link to a file below copies it up under both names") {
  const std::string object(64, 'a');
  Build build("/d directory mode=0700\n/d/f regular mode=0640 uid=1 size=9 object=" + object +
              "\n/l symlink target=d\n");
  REQUIRE(build.builder.link("e/h", "l/f"));
  REQUIRE(build.builder.resolve({}));
  CHECK(brief(build.layer, {"mtime"}) ==
        "/d directory mode=0700 uid=0 gid=0\n/d/f regular mode=0640 uid=1 gid=0 size=9 object=" + object +
            "\n/e directory mode=0755 uid=0 gid=0\n/e/h link to=/d/f\n");
}

TEST_CASE("hard links to nothing, to a directory and to a removed file are errors") {
  Build build("/d directory\n/f regular\n");
  CHECK_THAT(message_of(build.builder.link("h", "no")), Contains("entry \"h\"") && Contains("\"no\""));
  CHECK_THAT(message_of(build.builder.link("h", "d")), Contains("directory"));
  CHECK_THAT(message_of(build.builder.link("h", ".")), Contains("directory"));
  CHECK_THAT(message_of(build.builder.link("h", "../f")), Contains(".."));
  CHECK_THAT(message_of(build.builder.link("h", "")), Contains("empty"));
  CHECK_THAT(message_of(build.builder.link("h", "h")), Contains("no such file"));
  REQUIRE(build.builder.remove_below("f"));
  CHECK_THAT(message_of(build.builder.link("h", "f")), Contains("no such file"));
}

TEST_CASE("a hard link from a name to itself changes nothing") {
  Build build;
  REQUIRE(build.builder.add("h", file()));
  REQUIRE(build.builder.link("h", "h"));
  CHECK(build.result() == "/h regular\n");
}

TEST_CASE("a hard link may replace the directory that its target lies in") {
  Build build;
  REQUIRE(build.builder.add("d/f", file(0600)));
  REQUIRE(build.builder.link("d", "d/f"));
  CHECK(build.result() == "/d regular\n");
}

TEST_CASE("a whiteout hides what is below and nothing else") {
  Build build("/a regular\n/d directory mode=0700\n/d/b regular\n");
  REQUIRE(build.builder.remove_below("a"));
  REQUIRE(build.builder.remove_below("d/b"));
  REQUIRE(build.builder.remove_below("d/none"));
  REQUIRE(build.builder.remove_below("none/none"));
  REQUIRE(build.builder.remove_below("a/none"));
  CHECK(build.result() == "/a whiteout\n/d directory\n/d/b whiteout\n");
  CHECK(build.layer.inode(build.layer.find(0, "d")).mode == 0700);
}

TEST_CASE("a whiteout and an entry of one name, in both orders: the entry stays") {
  for (const bool whiteout_first : {true, false}) {
    Build build("/f regular\n/d directory mode=0711 uid=9\n/d/old regular\n");
    if (whiteout_first) REQUIRE((build.builder.remove_below("f") && build.builder.remove_below("d")));
    REQUIRE(build.builder.add("f", file()));
    REQUIRE(build.builder.add("d", directory(0700)));
    REQUIRE(build.builder.add("d/new", file()));
    if (!whiteout_first) REQUIRE((build.builder.remove_below("f") && build.builder.remove_below("d")));
    CHECK(build.result() == "/d directory opaque\n/d/new regular\n/f regular\n");
    CHECK(build.layer.inode(build.layer.find(0, "d")).mode == 0700);
  }
}

TEST_CASE("a directory that is removed and only implied afterwards, or before, is a new one") {
  for (const bool whiteout_first : {true, false}) {
    Build build("/d directory mode=0711 uid=9\n/d/old regular\n");
    if (whiteout_first) REQUIRE(build.builder.remove_below("d"));
    REQUIRE(build.builder.add("d/new", file()));
    if (!whiteout_first) REQUIRE(build.builder.remove_below("d"));
    CHECK(build.result() == "/d directory opaque\n/d/new regular\n");
    CHECK(build.layer.inode(build.layer.find(0, "d")) ==
          Inode{.type = FileType::directory, .mode = 0755, .opaque = true});
  }
}

TEST_CASE("an opaque mark hides the children below, wherever it comes") {
  for (const bool mark_first : {true, false}) {
    Build build("/d directory mode=0711\n/d/old regular\n/d/sub directory\n/d/sub/old regular\n");
    if (mark_first) REQUIRE(build.builder.make_opaque("d"));
    REQUIRE(build.builder.add("d/new", file()));
    REQUIRE(build.builder.add("d/sub/new", file()));
    if (!mark_first) REQUIRE(build.builder.make_opaque("d"));
    CHECK(build.result() == "/d directory opaque\n/d/new regular\n/d/sub directory\n/d/sub/new regular\n");
    MergedTree merged = build.below;
    REQUIRE(merged.apply(build.layer));
    CHECK(outline(merged.tree()) == "/d directory\n/d/new regular\n/d/sub directory\n/d/sub/new regular\n");
  }
}

TEST_CASE("opaque marks and whiteouts that hide nothing leave no trace") {
  Build build("/d directory\n/d/x regular\n/f regular\n");
  REQUIRE(build.builder.make_opaque("new"));
  REQUIRE(build.builder.add("new", directory()));
  REQUIRE(build.builder.add("f", directory()));
  REQUIRE(build.builder.make_opaque("f"));
  REQUIRE(build.builder.remove_below("d/x"));
  REQUIRE(build.builder.make_opaque("d"));
  CHECK(build.result() == "/d directory opaque\n/f directory\n/new directory\n");
}

TEST_CASE("the root can be opaque") {
  Build build("/old regular\n");
  REQUIRE(build.builder.make_opaque("."));
  REQUIRE(build.builder.add("new", file()));
  REQUIRE(build.builder.resolve({}));
  CHECK(build.layer.inode(0).opaque);
  REQUIRE(build.below.apply(build.layer));
  CHECK(outline(build.below.tree()) == "/new regular\n");
}

TEST_CASE("a directory that replaces a file of this layer does not bring the one below back") {
  Build build("/d directory\n/d/old regular\n");
  REQUIRE(build.builder.add("d", file()));
  REQUIRE(build.builder.add("d", directory()));
  CHECK(build.result() == "/d directory opaque\n");
}

TEST_CASE("without layers below, removals do nothing") {
  format::LayerTree layer;
  auto builder = LayerBuilder::create(layer, nullptr);
  REQUIRE(builder);
  REQUIRE(builder->add("d/f", file()));
  REQUIRE(builder->remove_below("d"));
  REQUIRE(builder->make_opaque("d"));
  REQUIRE(builder->make_opaque("."));
  REQUIRE(builder->resolve({}));
  CHECK(outline(layer) == "/d directory\n/d/f regular\n");
  CHECK_FALSE(layer.inode(0).opaque);
}

TEST_CASE("limits of inodes are checked before anything is stored") {
  Build build;
  const auto refused = [&](Inode inode) { return message_of(build.builder.add("e", std::move(inode))); };
  CHECK_THAT(refused(symlink("")), Contains("target"));
  CHECK_THAT(refused(symlink(std::string(4096, 't'))), Contains("4096"));
  CHECK_THAT(refused(symlink(std::string("a\0b", 3))), Contains("NUL"));
  CHECK_THAT(refused({.type = FileType::char_device, .major = 4096}), Contains("4096:0"));
  CHECK_THAT(refused({.type = FileType::block_device, .minor = 1u << 20}), Contains("1048576"));
  CHECK_THAT(refused({.type = FileType::whiteout}), Contains("whiteout"));
  CHECK_THAT(refused({.xattrs = {{"", "v"}}}), Contains("xattr"));
  CHECK_THAT(refused({.xattrs = {{std::string("user.a\0b", 8), "v"}}}), Contains("xattr"));
  CHECK_THAT(refused({.xattrs = {{"user.v", std::string(65536, 'v')}}}), Contains("65536"));
  CHECK_THAT(refused({.size = format::kMaxFileBytes + 1}), Contains("size"));
  CHECK(build.result().empty());
}

TEST_CASE("a target directory takes the whole source") {
  Build build("/srv directory mode=0711\n", {.target_dir = "/srv/app/"});
  REQUIRE(build.builder.add("./", directory(0700)));
  REQUIRE(build.builder.add("bin/x", file()));
  REQUIRE(build.builder.link("y", "bin/x"));
  REQUIRE(build.builder.resolve({}));
  CHECK(brief(build.layer, {"mtime", "uid", "gid"}) ==
        "/srv directory mode=0711\n/srv/app directory mode=0700\n/srv/app/bin directory mode=0755\n"
        "/srv/app/bin/x regular mode=0644\n/srv/app/y link to=/srv/app/bin/x\n");
}

TEST_CASE("a target directory is made even for an empty source, through symlinks below") {
  Build build("/opt symlink target=usr/opt\n/usr directory\n/usr/opt directory\n", {.target_dir = "opt/tool"});
  CHECK(build.result() == "/usr directory\n/usr/opt directory\n/usr/opt/tool directory\n");
}

TEST_CASE("no symlink leads out of the target directory") {
  Build build("/etc directory\n/app directory\n/app/out symlink target=/etc\n", {.target_dir = "/app"});
  CHECK_THAT(message_of(build.builder.add("out/passwd", file())), Contains("target directory"));
  REQUIRE(build.builder.add("up", symlink("..")));
  CHECK_THAT(message_of(build.builder.add("up/etc/passwd", file())), Contains("target directory"));
  REQUIRE(build.builder.add("in", directory()));
  REQUIRE(build.builder.add("back", symlink("../app/in")));
  CHECK(build.builder.add("back/x", file()));
}

TEST_CASE("a target directory that cannot be is refused") {
  format::LayerTree layer;
  const MergedTree below = merged_of("/f regular\n/gone symlink target=no\n");
  CHECK_THAT(message_of(LayerBuilder::create(layer, &below, {.target_dir = "/f/x"})), Contains("regular"));
  CHECK_THAT(message_of(LayerBuilder::create(layer, &below, {.target_dir = "/gone"})), Contains("does not exist"));
  CHECK_THAT(message_of(LayerBuilder::create(layer, &below, {.target_dir = "../x"})), Contains(".."));
}
