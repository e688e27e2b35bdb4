// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "format/erofs.h"
#include "format/internal/xattr_codec.h"

using namespace dsec;
using namespace dsec::format;

namespace {

Inode with_xattr(FileType type, const std::string& name, const std::string& value) {
  Inode inode;
  inode.type = type;
  inode.xattrs[name] = value;
  return inode;
}

// The xattrs of /it as the image of a tree with it holds them, raw or in a view.
struct Stored {
  Xattrs raw;
  Xattrs plain;
  Xattrs overlay;
};

Stored stored(const LayerTree& tree, std::string_view name) {
  const auto image = write_layer(tree);
  REQUIRE(image);
  REQUIRE(read_layer(*image));
  const auto view = ErofsView::open(*image);
  const auto root = view->inode(view->root_nid());
  const auto inode = name == "/" ? root : view->inode(view->lookup(*root, name).value());
  Stored result;
  REQUIRE(view->for_each_raw_xattr(*inode, [&](const std::string& raw_name, std::string_view value) {
    result.raw.emplace(raw_name, value);
    return true;
  }));
  result.plain = view->xattrs(*inode, XattrView::plain).value();
  result.overlay = view->xattrs(*inode, XattrView::overlay).value();
  return result;
}

Stored stored(Inode inode) {
  LayerTree tree;
  REQUIRE(tree.add(LayerTree::root(), "it", std::move(inode)));
  return stored(tree, "it");
}

bool is_storable(const std::string& name, const std::string& value) {
  LayerTree tree;
  REQUIRE(tree.add(LayerTree::root(), "it", with_xattr(FileType::fifo, name, value)));
  return write_layer(tree).has_value();
}

}  // namespace

TEST_CASE("F-33: only the namespaces of Linux can be stored") {
  for (const char* name :
       {"user.a", "trusted.a", "security.a", "system.posix_acl_access", "system.posix_acl_default"}) {
    INFO(name);
    CHECK(is_storable(name, "v"));
  }
  for (const char* name :
       {"", "user", "user.", "system.a", "system.posix_acl_access.x", "btrfs.compression", "USER.a"}) {
    INFO(name);
    CHECK_FALSE(is_storable(name, "v"));
  }
  CHECK_FALSE(is_storable(std::string("user.a\0b", 8), "v"));
}

TEST_CASE("F-34: names, values and their sum have limits") {
  CHECK(is_storable("user." + std::string(255, 'n'), ""));
  CHECK_FALSE(is_storable("user." + std::string(256, 'n'), ""));
  CHECK(is_storable("user.a", std::string(kMaxXattrValueBytes, 'v')));
  CHECK_FALSE(is_storable("user.a", std::string(kMaxXattrValueBytes + 1, 'v')));

  LayerTree tree;
  Inode inode;
  for (const char* name : {"user.a", "user.b", "user.c"}) inode.xattrs[name] = std::string(kMaxXattrValueBytes, 'v');
  // The header, and four entries of 4 bytes, a name of 1 byte and a value, without padding.
  inode.xattrs["user.d"] = std::string(kMaxXattrBytes - 12 - 3 * (5 + kMaxXattrValueBytes) - 5, 'v');
  REQUIRE(tree.add(LayerTree::root(), "it", inode));
  CHECK(write_layer(tree));
  inode.xattrs["user.d"] += 'v';
  REQUIRE(tree.add(LayerTree::root(), "it", inode));
  CHECK_FALSE(write_layer(tree));
}

TEST_CASE("F-35: a file with content names its object as overlayfs redirects") {
  Inode inode;
  inode.size = 1;
  inode.object = sha256(as_bytes("x"));
  const std::string hex = inode.object.hex();
  const Stored it = stored(inode);
  CHECK(it.raw == Xattrs{{"trusted.overlay.metacopy", ""},
                         {"trusted.overlay.redirect", "/" + hex.substr(0, 2) + "/" + hex.substr(2)}});
  CHECK(it.plain.empty());
  CHECK(it.overlay.empty());
  CHECK(stored(Inode{}).raw.empty());
}

TEST_CASE("F-36: an opaque directory has the mark of overlayfs, which no view shows") {
  Inode inode;
  inode.type = FileType::directory;
  inode.opaque = true;
  const Stored it = stored(inode);
  CHECK(it.raw == Xattrs{{"trusted.overlay.opaque", "y"}});
  CHECK(it.plain.empty());
}

TEST_CASE("F-37: xattrs of overlayfs in the source are escaped, and shown unescaped") {
  const Stored it = stored(with_xattr(FileType::directory, "trusted.overlay.opaque", "y"));
  CHECK(it.raw == Xattrs{{"trusted.overlay.overlay.opaque", "y"}});
  CHECK(it.plain == Xattrs{{"trusted.overlay.opaque", "y"}});
  CHECK(it.overlay == it.raw);

  const Stored twice = stored(with_xattr(FileType::fifo, "trusted.overlay.overlay.x", "1"));
  CHECK(twice.raw == Xattrs{{"trusted.overlay.overlay.overlay.x", "1"}});
  CHECK(twice.plain == Xattrs{{"trusted.overlay.overlay.x", "1"}});

  const Stored mark = stored(with_xattr(FileType::regular, "trusted.overlay.dsec.device", ""));
  CHECK(mark.plain == Xattrs{{"trusted.overlay.dsec.device", ""}});
  CHECK(stored(with_xattr(FileType::regular, "trusted.overlay.", "")).plain == Xattrs{{"trusted.overlay.", ""}});
  CHECK(stored(with_xattr(FileType::regular, "trusted.overlayx", "")).raw == Xattrs{{"trusted.overlayx", ""}});
}

TEST_CASE("F-38: a real 0:0 device is an escaped whiteout with our mark") {
  Inode inode;
  inode.type = FileType::char_device;
  inode.xattrs["user.a"] = "1";
  const Stored it = stored(inode);
  CHECK(it.raw ==
        Xattrs{{"trusted.overlay.dsec.device", ""}, {"trusted.overlay.overlay.whiteout", ""}, {"user.a", "1"}});
  CHECK(it.plain == Xattrs{{"user.a", "1"}});
  CHECK(it.overlay == Xattrs{{"trusted.overlay.overlay.whiteout", ""}, {"user.a", "1"}});
}

TEST_CASE("F-38: a 0:0 device that has the xattr of a whiteout is refused") {
  LayerTree tree;
  REQUIRE(tree.add(LayerTree::root(), "it", with_xattr(FileType::char_device, "trusted.overlay.whiteout", "")));
  const auto image = write_layer(tree);
  REQUIRE_FALSE(image);
  CHECK(image.error().code == ErrorCode::invalid);
}

TEST_CASE("F-38: other devices and files keep a xattr of a whiteout that they have") {
  Inode null = with_xattr(FileType::char_device, "trusted.overlay.whiteout", "");
  null.major = 1;
  null.minor = 3;
  CHECK(stored(null).plain == null.xattrs);
  const Inode file = with_xattr(FileType::regular, "trusted.overlay.whiteout", "");
  CHECK(stored(file).plain == file.xattrs);
}

TEST_CASE("F-39: a directory with a 0:0 device is marked so that overlayfs looks for escaped whiteouts") {
  LayerTree tree;
  Inode device;
  device.type = FileType::char_device;
  REQUIRE(tree.add(LayerTree::root(), "zero", device));
  const Stored root = stored(tree, "/");
  CHECK(root.raw == Xattrs{{"trusted.overlay.dsec.xwhiteouts", ""}, {"trusted.overlay.overlay.opaque", "x"}});
  CHECK(root.plain.empty());
  CHECK(root.overlay == Xattrs{{"trusted.overlay.overlay.opaque", "x"}});
}

TEST_CASE("F-39: a directory with a 0:0 device keeps the opaque xattr that it has") {
  for (const char* value : {"y", "x"}) {
    LayerTree tree;
    Inode device;
    device.type = FileType::char_device;
    REQUIRE(tree.add(LayerTree::root(), "zero", device));
    tree.inode(LayerTree::root()).xattrs["trusted.overlay.opaque"] = value;
    CHECK(stored(tree, "/").plain == Xattrs{{"trusted.overlay.opaque", value}});
  }
}

TEST_CASE("object paths of another shape are corrupt") {
  const std::string hex = sha256({}).hex();
  CHECK(parse_object_path("/" + hex.substr(0, 2) + "/" + hex.substr(2)).value() == sha256({}));
  for (const std::string& path : {std::string(), "/" + hex, hex, "/" + hex.substr(0, 3) + "/" + hex.substr(3),
                                  "/E3/" + hex.substr(2), "/" + hex.substr(0, 2) + "/" + hex.substr(2) + "0"}) {
    INFO(path);
    CHECK_FALSE(parse_object_path(path));
  }
}
