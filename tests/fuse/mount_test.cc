// SPDX-License-Identifier: Apache-2.0
// The same through the kernel: a real mount, with each transport.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <fstream>
#include <set>

#include "fuse/mounted.h"
#include "tree/tree_support.h"

namespace dsec::fuse {
namespace {

namespace fs = std::filesystem;
using test::Mount;
using tree::test::World;

std::size_t walk_all(const fs::path& dir) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    struct stat st {};
    REQUIRE(::lstat(entry.path().c_str(), &st) == 0);
    ++count;
  }
  return count;
}

constexpr std::string_view kLines =
    "/a directory mode=0711 uid=12 gid=34 mtime=1000.250000000\n/a/f regular mode=04755 uid=7 content=content-of-f\n"
    "/a/g link to=/a/f\n/a/l symlink target=f\n/p fifo mode=0600\n/n char_device device=1:3 mode=0666";

TEST_CASE("a mounted environment looks as it was described") {
  FOR_EACH_TRANSPORT(options);
  World world;
  const std::shared_ptr<tree::Namespace> names = world.names();
  names->attach(
      "env",
      world.env("env",
                {world.layer(kLines),
                 world.layer("/a directory mode=0711 uid=12 gid=34 mtime=1000.250000000\n/a/h regular content=h")}));
  const Mount mount(names, options);
  CHECK(dsec::test::read_text(mount / "env/a/f") == "content-of-f");
  CHECK(dsec::test::read_text(mount / "env/a/l") == "content-of-f");
  struct stat st {};
  REQUIRE(::lstat((mount / "env/a/f").c_str(), &st) == 0);
  CHECK((st.st_mode == (S_IFREG | 04755) && st.st_uid == 7 && st.st_nlink == 2 && st.st_size == 12));
  const auto inode = st.st_ino;
  REQUIRE(::lstat((mount / "env/a/g").c_str(), &st) == 0);
  CHECK(st.st_ino == inode);
  REQUIRE(::lstat((mount / "env/a").c_str(), &st) == 0);
  CHECK((st.st_mtim.tv_sec == 1000 && st.st_mtim.tv_nsec == 250000000 && st.st_gid == 34));
  CHECK(walk_all(mount / "env") == 7);
  CHECK(::access((mount / "env/none").c_str(), F_OK) == -1);
  CHECK(::mkdir((mount / "env/new").c_str(), 0755) == -1);
  CHECK(errno == EROFS);
}

TEST_CASE("what was seen once costs no request") {
  FOR_EACH_TRANSPORT(options);
  World world;
  const std::shared_ptr<tree::Namespace> names = world.names();
  names->attach("env", world.env("env", {world.layer(kLines)}));
  const Mount mount(names, options);
  const auto use = [&] {
    walk_all(mount / "env");
    dsec::test::read_text(mount / "env/a/f");
    ::access((mount / "env/absent").c_str(), F_OK);
    CHECK(fs::read_symlink(mount / "env/a/l") == "f");
    char value[8];
    ::getxattr((mount / "env/a/f").c_str(), "user.x", value, sizeof value);
  };
  use();
  const RequestCounts& counts = mount.counts();
  const auto total = [&] {
    return counts.lookup.get() + counts.getattr.get() + counts.read.get() + counts.readlink.get() +
           counts.readdirplus.get() + counts.readdir.get() + counts.getxattr.get() + counts.open.get();
  };
  const auto before = total();
  CHECK(counts.getxattr.get() <= 1);
  for (int i = 0; i < 5; ++i) use();
  CHECK(total() == before);
}

TEST_CASE("large files with holes read, map and seek right") {
  FOR_EACH_TRANSPORT(options);
  World world;
  Bytes bytes = dsec::test::noise(1, 3 << 20);
  std::fill(bytes.begin() + (1 << 20), bytes.begin() + (2 << 20), 0);
  format::Inode inode;
  inode.size = bytes.size();
  inode.object = world.content(bytes, 64 << 10);
  format::LayerTree tree;
  REQUIRE(tree.add(0, "big", inode));
  const auto layer = world.layer(tree);
  const std::shared_ptr<tree::Namespace> names = world.names();
  names->attach("env", world.env("env", {layer}));
  const Mount mount(names, options);
  CHECK(dsec::test::read_text(mount / "env/big") == as_text(bytes));
  const Fd fd(::open((mount / "env/big").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd.valid());
  CHECK(::lseek(fd.get(), 0, SEEK_HOLE) == 1 << 20);
  CHECK(::lseek(fd.get(), 1 << 20, SEEK_DATA) == 2 << 20);
  void* const map = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, fd.get(), 0);
  REQUIRE(map != MAP_FAILED);
  CHECK(std::memcmp(map, bytes.data(), bytes.size()) == 0);
  ::munmap(map, bytes.size());
}

TEST_CASE("a directory of thousands of names lists each once") {
  FOR_EACH_TRANSPORT(options);
  World world;
  format::LayerTree tree;
  for (int i = 0; i < 5000; ++i) REQUIRE(tree.add(0, fmt::format("{}-{}", std::string(1 + i % 60, 'n'), i), {}));
  const auto layer = world.layer(tree);
  const std::shared_ptr<tree::Namespace> names = world.names();
  names->attach("env", world.env("env", {layer}));
  const Mount mount(names, options);
  std::set<std::string> seen;
  for (const auto& entry : fs::directory_iterator(mount / "env")) CHECK(seen.insert(entry.path().filename()).second);
  CHECK(seen.size() == 5000);
}

TEST_CASE("xattrs are served where the session has them") {
  FOR_EACH_TRANSPORT(options);
  World world;
  const std::shared_ptr<tree::Namespace> names = world.names();
  names->attach("env", world.env("env", {world.layer("/f regular xattr:user.a=value xattr:trusted.overlay.opaque=y")}));
  options.xattrs = SessionOptions::Xattrs::yes;
  const Mount mount(names, options);
  char value[64] = {};
  CHECK(::lgetxattr((mount / "env/f").c_str(), "user.a", value, sizeof value) == 5);
  CHECK(std::string(value) == "value");
  CHECK(::lgetxattr((mount / "env/f").c_str(), "trusted.overlay.opaque", value, sizeof value) == 1);
  CHECK(::lgetxattr((mount / "env/f").c_str(), "user.b", value, sizeof value) == -1);
  CHECK(errno == ENODATA);
}

TEST_CASE("a detached environment is gone, and what was open in it is stale") {
  FOR_EACH_TRANSPORT(options);
  World world;
  const std::shared_ptr<tree::Namespace> names = world.names();
  names->attach("env", world.env("env", {world.layer(kLines)}));
  const Mount mount(names, options);
  const Fd fd(::open((mount / "env/a/f").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd.valid());
  names->detach("env");
  mount.session().forget_root_entry("env");
  CHECK(::access((mount / "env").c_str(), F_OK) == -1);
  char byte = 0;
  CHECK(::pread(fd.get(), &byte, 1, 0) == -1);
  CHECK(errno == ESTALE);
  names->attach("env", world.env("env", {world.layer(kLines)}));
  CHECK(dsec::test::read_text(mount / "env/a/f") == "content-of-f");
}

}  // namespace
}  // namespace dsec::fuse
