// SPDX-License-Identifier: Apache-2.0
// What others read from our images: the kernel, fsck.erofs, dump.erofs.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "base/process.h"
#include "base/text.h"
#include "format/erofs.h"
#include "format/erofs_mount.h"
#include "format/internal/xattr_codec.h"
#include "format/trees.h"
#include "support/skip.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

namespace {

namespace fs = std::filesystem;

mode_t type_bits(const Inode& inode) {
  if (is_device_zero(inode)) return S_IFREG;
  switch (inode.type) {
    case FileType::regular: return S_IFREG;
    case FileType::directory: return S_IFDIR;
    case FileType::symlink: return S_IFLNK;
    case FileType::char_device:
    case FileType::whiteout: return S_IFCHR;
    case FileType::block_device: return S_IFBLK;
    case FileType::fifo: return S_IFIFO;
    case FileType::socket: return S_IFSOCK;
  }
  return 0;
}

// The kernel lists the xattrs of any type but gives user.* of files and directories only, and ACLs of all but symlinks
// (xattr(7), fs/posix_acl.c).
bool kernel_gives(mode_t type, std::string_view name) {
  if (starts_with(name, "user.")) return type == S_IFREG || type == S_IFDIR;
  return !starts_with(name, "system.posix_acl") || type != S_IFLNK;
}

Xattrs xattrs_of(const fs::path& path, mode_t type) {
  Xattrs found;
  std::string names(65536, '\0');
  const ssize_t length = ::llistxattr(path.c_str(), names.data(), names.size());
  INFO(path << ": " << std::strerror(errno));
  REQUIRE(length >= 0);
  for (std::size_t at = 0; at < static_cast<std::size_t>(length);) {
    const std::string name = names.c_str() + at;
    std::string value(65536, '\0');
    const ssize_t size = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
    at += name.size() + 1;
    if (size < 0 && !kernel_gives(type, name)) continue;
    INFO(name << ": " << std::strerror(errno));
    REQUIRE(size >= 0);
    value.resize(static_cast<std::size_t>(size));
    found[name] = value;
  }
  return found;
}

// What the image has to hold for an inode of the tree: its own xattrs escaped, and ours.
Xattrs expected_xattrs(const LayerTree& tree, InodeId id) {
  const Inode& inode = tree.inode(id);
  if (inode.type == FileType::whiteout) return {};
  bool devices = false;
  for (const auto& [name, child] : tree.children(id)) devices = devices || is_device_zero(tree.inode(child));
  const RawXattrs raw = raw_xattrs(inode, devices ? HoldsDevices::yes : HoldsDevices::no).value();
  Xattrs all;
  for (const auto& [key, value] : raw) {
    const std::string name = xattr_name(key.first, key.second);
    if (kernel_gives(type_bits(inode), name)) all[name] = value;
  }
  return all;
}

class Comparison {
 public:
  explicit Comparison(const LayerTree& tree) : tree_(tree) {}

  void compare(const fs::path& path, InodeId id) {
    INFO(path);
    compare_attributes(path, id);
    if (tree_.inode(id).type != FileType::directory) return;
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) names.insert(entry.path().filename().native());
    std::set<std::string> wanted;
    for (const auto& [name, child] : tree_.children(id)) wanted.insert(name);
    CHECK(names == wanted);
    for (const auto& [name, child] : tree_.children(id)) compare(path / name, child);
  }

 private:
  void compare_attributes(const fs::path& path, InodeId id) {
    const Inode& inode = tree_.inode(id);
    struct stat st {};
    REQUIRE(::lstat(path.c_str(), &st) == 0);
    CHECK(st.st_mode == (type_bits(inode) | inode.mode));
    CHECK(st.st_uid == inode.uid);
    CHECK(st.st_gid == inode.gid);
    CHECK(st.st_mtim.tv_sec == inode.mtime.sec);
    CHECK(st.st_mtim.tv_nsec == inode.mtime.nsec);
    CHECK(st.st_nlink == tree_.link_count(id));
    if (inode.type == FileType::regular) CHECK(static_cast<std::uint64_t>(st.st_size) == inode.size);
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) CHECK(st.st_rdev == ::makedev(inode.major, inode.minor));
    if (S_ISLNK(st.st_mode)) CHECK(target_of(path) == inode.target);
    CHECK(xattrs_of(path, st.st_mode & S_IFMT) == expected_xattrs(tree_, id));
    // Names of one inode, and only they, share an inode number.
    CHECK(numbers_.emplace(id, st.st_ino).first->second == st.st_ino);
    CHECK(owners_.emplace(st.st_ino, id).first->second == id);
  }

  static std::string target_of(const fs::path& path) {
    std::string target(kMaxSymlinkBytes + 1, '\0');
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    REQUIRE(length >= 0);
    return target.substr(0, static_cast<std::size_t>(length));
  }

  const LayerTree& tree_;
  std::map<InodeId, ino_t> numbers_;
  std::map<ino_t, InodeId> owners_;
};

LayerTree tree_named(const std::string& name) {
  if (name == "random") return random_tree(11, 3000);
  return golden_tree(name);
}

// A file with the image, removed at the end.
class ImageFile {
 public:
  explicit ImageFile(ByteView image) {
    path_ = (fs::temp_directory_path() / "dsec-image-XXXXXX").native();
    const Fd fd(::mkstemp(path_.data()));
    REQUIRE(fd.valid());
    REQUIRE(write_all(fd, image));
  }
  ~ImageFile() { ::unlink(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("the kernel's EROFS shows the tree of an image") {
  const std::string name = GENERATE("empty", "tiny", "zoo", "random");
  const LayerTree tree = tree_named(name);
  const auto mount = ErofsMount::of_image(write_layer(tree).value());
  if (!mount && mount.error().code == ErrorCode::permission) SKIP_TEST(mount.error().message);
  if (!mount && mount.error().code == ErrorCode::unsupported) SKIP_TEST(mount.error().message);
  INFO((mount ? "" : mount.error().message));
  REQUIRE(mount);
  Comparison(tree).compare(mount->root(), LayerTree::root());
}

TEST_CASE("the kernel reads zeros where a file of an image has content") {
  LayerTree tree;
  Inode inode;
  inode.size = 10000;
  inode.object = sha256({});
  REQUIRE(tree.add(LayerTree::root(), "f", inode));
  const auto mount = ErofsMount::of_image(write_layer(tree).value());
  if (!mount && mount.error().code == ErrorCode::permission) SKIP_TEST(mount.error().message);
  REQUIRE(mount);
  CHECK(read_file(mount->root() / "f", 1 << 20).value() == Bytes(10000));
}

TEST_CASE("fsck.erofs finds nothing to complain of") {
  if (!run_program({"fsck.erofs", "-V"})) SKIP_TEST("fsck.erofs is not installed (package erofs-utils)");
  const std::string name = GENERATE("empty", "tiny", "zoo", "random");
  const ImageFile file(write_layer(tree_named(name)).value());
  const auto output = run_program({"fsck.erofs", "-d2", file.path()});
  INFO(name << ": " << (output ? "" : output.error().message));
  CHECK(output);
}

TEST_CASE("dump.erofs reads the superblock and an inode") {
  if (!run_program({"dump.erofs", "-V"})) SKIP_TEST("dump.erofs is not installed (package erofs-utils)");
  const ImageFile file(write_layer(golden_tree("tiny")).value());
  const auto super = run_program({"dump.erofs", "-s", file.path()});
  REQUIRE(super);
  INFO(*super);
  CHECK(super->find("inode count:                       4") != std::string::npos);
  const auto inode = run_program({"dump.erofs", "--path=/a", file.path()});
  REQUIRE(inode);
  INFO(*inode);
  CHECK(inode->find("Size: 6") != std::string::npos);
  CHECK(inode->find("Uid: 1000") != std::string::npos);
}
