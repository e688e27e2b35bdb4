// SPDX-License-Identifier: Apache-2.0
// Layer images and a directory of objects, put together by the kernel.
#include "rootfs/object_root.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "base/mounts.h"
#include "base/text.h"
#include "format/dump.h"
#include "format/erofs.h"
#include "support/skip.h"
#include "support/temp_dir.h"

namespace dsec::rootfs {
namespace {

namespace fs = std::filesystem;

#define NEED_OBJECT_MODE(dir)                                                              \
  do {                                                                                     \
    if (::geteuid() != 0) SKIP_TEST("mounting needs root");                                \
    if (const auto works = try_object_mode(dir); !works) SKIP_TEST(works.error().message); \
  } while (false)

// Layers and objects in a temporary directory; nothing is ever mounted anywhere.
class Stack {
 public:
  void object(std::string_view content) {
    const std::string hex = sha256(as_bytes(content)).hex();
    REQUIRE(write_file_atomic(dir_.path(), dir_ / ("objects/" + hex.substr(0, 2) + "/" + hex.substr(2)),
                              as_bytes(content)));
  }
  // A layer above those that are there.
  void layer(const std::string& lines) {
    const fs::path image = dir_ / fmt::format("layer{}", layers_.size());
    const auto bytes = format::write_layer(format::parse_dump(lines).value());
    REQUIRE(bytes);
    REQUIRE(write_file_atomic(dir_.path(), image, *bytes));
    auto mounted = mount_layer(image);
    if (!mounted) FAIL(mounted.error().message);
    layers_.push_back(std::move(*mounted));
  }
  [[nodiscard]] fs::path root() {
    std::vector<const Fd*> lowers;
    for (auto it = layers_.rbegin(); it != layers_.rend(); ++it) lowers.push_back(&*it);
    fs::create_directories(dir_ / "objects");
    const auto objects = copy_mount(fs::path(dir_ / "objects"));
    REQUIRE(objects);
    auto root = mount_object_root(lowers, *objects);
    if (!root) FAIL(root.error().message);
    root_ = std::move(*root);
    return fmt::format("/proc/self/fd/{}", root_.get());
  }
  [[nodiscard]] const fs::path& path() const { return dir_.path(); }

 private:
  dsec::test::TempDir dir_;
  std::vector<Fd> layers_;
  Fd root_;
};

std::string file_line(std::string_view path, std::string_view content) {
  return fmt::format("{} regular size={} object={}\n", path, content.size(), sha256(as_bytes(content)).hex());
}

std::string text(const fs::path& path) {
  const auto bytes = read_file(path, 1000);
  return bytes ? std::string(as_text(*bytes)) : bytes.error().message;
}

// A tmpfs in a temporary directory, and an overlayfs on it if that is wanted.
class Mounted {
 public:
  explicit Mounted(bool overlay) {
    tmpfs_ = mounted("tmpfs", {}, "tmpfs");
    if (!overlay) return;
    for (const char* name : {"lower", "upper", "work"}) fs::create_directories(tmpfs_ / name);
    overlay_ = mounted(
        "overlay", fmt::format("lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work", tmpfs_.native()), "overlay");
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;
  ~Mounted() {
    if (!overlay_.empty()) ::umount2(overlay_.c_str(), MNT_DETACH);
    if (!tmpfs_.empty()) ::umount2(tmpfs_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] const fs::path& path() const { return overlay_.empty() ? tmpfs_ : overlay_; }

 private:
  fs::path mounted(const char* type, const std::string& options, std::string_view name) {
    fs::path path = dir_ / name;
    fs::create_directories(path);
    REQUIRE(::mount("test", path.c_str(), type, 0, options.c_str()) == 0);
    return path;
  }
  dsec::test::TempDir dir_;
  fs::path tmpfs_;
  fs::path overlay_;
};

TEST_CASE("where the kernel mounts no layers from files, the reason says where they had to be") {
  const dsec::test::TempDir dir;
  NEED_OBJECT_MODE(dir.path());
  for (const bool overlay : {false, true}) {
    const Mounted mounted(overlay);
    const auto outcome = try_object_mode(mounted.path());
    REQUIRE(!outcome);
    CHECK(outcome.error().code == ErrorCode::unsupported);
    CHECK(starts_with(outcome.error().message, mounted.path().native()));
    const std::string reason =
        fmt::format(" is on {}, from whose files the kernel mounts no layers: put cache_dir on ext4 or xfs",
                    overlay ? "overlayfs" : "tmpfs");
    CHECK(outcome.error().message.find(reason) != std::string::npos);
  }
}

TEST_CASE("layers are one tree: upper files, whiteouts and opaque directories count, marks do not show") {
  Stack stack;
  NEED_OBJECT_MODE(stack.path());
  stack.object("low");
  stack.object("high");
  stack.layer("/ directory\n" + file_line("/both", "low") + file_line("/gone", "low") + file_line("/kept", "low") +
              "/d directory\n" + file_line("/d/hidden", "low") + "/m directory\n" + file_line("/m/low", "low"));
  stack.layer("/ directory\n" + file_line("/both", "high") + "/gone whiteout\n/d directory opaque\n" +
              file_line("/d/new", "high") + "/m directory mode=0700\n" + file_line("/m/high", "high"));
  const fs::path root = stack.root();
  CHECK(text(root / "both") == "high");
  CHECK(text(root / "kept") == "low");
  CHECK_FALSE(fs::exists(root / "gone"));
  CHECK_FALSE(fs::exists(root / "d/hidden"));
  CHECK(text(root / "d/new") == "high");
  CHECK(text(root / "m/low") == "low");
  CHECK(text(root / "m/high") == "high");
  CHECK((fs::status(root / "m").permissions() & fs::perms::all) == fs::perms::owner_all);
  char names[100];
  CHECK(::listxattr((root / "both").c_str(), names, sizeof names) == 0);
}

TEST_CASE("a tree of one layer works") {
  Stack stack;
  NEED_OBJECT_MODE(stack.path());
  stack.object("x");
  stack.layer("/ directory mode=0711 uid=5\n" + file_line("/f", "x"));
  const fs::path root = stack.root();
  struct stat st {};
  REQUIRE(::stat((root / ".").c_str(), &st) == 0);
  CHECK((st.st_mode & 07777) == 0711);
  CHECK(st.st_uid == 5);
  CHECK(text(root / "f") == "x");
}

TEST_CASE("names of a hard-linked file are one inode, on the device of the directory") {
  Stack stack;
  NEED_OBJECT_MODE(stack.path());
  stack.object("x");
  stack.layer("/ directory\n/low directory\n");
  stack.layer("/ directory\n" + file_line("/a", "x") + "/b link to=/a\n" + file_line("/c", "x"));
  const fs::path root = stack.root();
  struct stat a {
  }, b{}, c{}, top{};
  REQUIRE(::stat((root / "a").c_str(), &a) == 0);
  REQUIRE(::stat((root / "b").c_str(), &b) == 0);
  REQUIRE(::stat((root / "c").c_str(), &c) == 0);
  REQUIRE(::stat((root / ".").c_str(), &top) == 0);
  CHECK(a.st_ino == b.st_ino);
  CHECK(a.st_nlink == 2);
  CHECK(a.st_ino != c.st_ino);  // only the content is the same
  CHECK(a.st_dev == top.st_dev);
}

TEST_CASE("a name that an upper layer hides still counts as a link, unlike in tree mode") {
  Stack stack;
  NEED_OBJECT_MODE(stack.path());
  stack.object("x");
  stack.layer("/ directory\n" + file_line("/a", "x") + "/b link to=/a\n");
  stack.layer("/ directory\n/b whiteout\n");
  const fs::path root = stack.root();
  CHECK_FALSE(fs::exists(root / "b"));
  CHECK(fs::hard_link_count(root / "a") == 2);
}

TEST_CASE("a file whose object is not there can be looked at but not read") {
  Stack stack;
  NEED_OBJECT_MODE(stack.path());
  stack.layer("/ directory\n" + file_line("/f", "not there"));
  const fs::path root = stack.root();
  CHECK(fs::file_size(root / "f") == 9);
  CHECK(::open((root / "f").c_str(), O_RDONLY) == -1);
  CHECK(errno == ENOENT);  // as the directory of objects says; lazyfs says EIO
}

TEST_CASE("nothing of it is in the table of mounts, and it cannot be written") {
  Stack stack;
  NEED_OBJECT_MODE(stack.path());
  stack.layer("/ directory\n/d directory\n");
  const fs::path root = stack.root();
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) CHECK(line.find(stack.path().native()) == std::string::npos);
  CHECK(::mkdir((root / "d/new").c_str(), 0755) == -1);
  CHECK(errno == EROFS);
}

TEST_CASE("more layers than an overlayfs takes are refused by name") {
  const Fd none;
  const std::vector<const Fd*> many(kMaxLowers + 1, &none);
  const auto refused = mount_object_root(many, none);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
}

TEST_CASE("a file that is no image is refused") {
  Stack stack;
  NEED_OBJECT_MODE(stack.path());
  REQUIRE(write_file_atomic(stack.path(), stack.path() / "noise", as_bytes(std::string(10000, 'x'))));
  CHECK_FALSE(mount_layer(stack.path() / "noise"));
  CHECK_FALSE(mount_layer(stack.path() / "absent"));
}

TEST_CASE("what the probe tried is gone") {
  dsec::test::TempDir dir;
  NEED_OBJECT_MODE(dir.path());
  CHECK(fs::is_empty(dir.path()));
}

}  // namespace
}  // namespace dsec::rootfs
