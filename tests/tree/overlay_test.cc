// SPDX-License-Identifier: Apache-2.0
// Stitching against the kernel's own overlayfs, over random stacks of layers.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "support/skip.h"
#include "tree/random_stack.h"
#include "tree/tree_support.h"
#include "tree/tree_walk.h"

namespace dsec::tree::test {
namespace {

namespace fs = std::filesystem;

mode_t type_bits(FileType type) {
  switch (type) {
    case FileType::directory: return S_IFDIR;
    case FileType::symlink: return S_IFLNK;
    case FileType::fifo: return S_IFIFO;
    case FileType::char_device:
    case FileType::whiteout: return S_IFCHR;
    default: return S_IFREG;
  }
}

// A layer as a directory that overlayfs takes as a lower one.
class Unpacker {
 public:
  Unpacker(const LayerTree& tree, const fs::path& root) : tree_(tree) {
    fs::create_directory(root);
    fill(LayerTree::root(), root);
  }

 private:
  void fill(InodeId id, const fs::path& path) {
    const Inode& inode = tree_.inode(id);
    for (const auto& [name, child] : tree_.children(id)) make(child, path / name);
    if (inode.opaque) REQUIRE(::setxattr(path.c_str(), "trusted.overlay.opaque", "y", 1, 0) == 0);
    finish(inode, path);
  }

  void make(InodeId id, const fs::path& path) {
    const Inode& inode = tree_.inode(id);
    if (const auto known = made_.find(id); known != made_.end()) {
      REQUIRE(::link(known->second.c_str(), path.c_str()) == 0);
      return;
    }
    made_[id] = path;
    if (inode.type == FileType::directory) {
      fs::create_directory(path);
      return fill(id, path);
    }
    if (inode.type == FileType::symlink) {
      fs::create_symlink(inode.target, path);
    } else {
      REQUIRE(::mknod(path.c_str(), type_bits(inode.type), makedev(inode.major, inode.minor)) == 0);
    }
    if (inode.type != FileType::whiteout) finish(inode, path);
  }

  static void finish(const Inode& inode, const fs::path& path) {
    REQUIRE(::lchown(path.c_str(), inode.uid, inode.gid) == 0);
    if (inode.type != FileType::symlink) REQUIRE(::chmod(path.c_str(), inode.mode) == 0);
    const struct timespec time { static_cast<time_t>(inode.mtime.sec), static_cast<long>(inode.mtime.nsec) };
    const struct timespec times[2] = {time, time};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
  }

  const LayerTree& tree_;
  std::map<InodeId, fs::path> made_;
};

// nlink is left out: overlayfs gives 1 for merged directories and the lower file's for others.
std::string describe(mode_t mode, std::uint32_t uid, std::uint32_t gid, const struct timespec& time,
                     std::uint64_t device) {
  return fmt::format("{:o} {}:{} {}.{} {}", mode, uid, gid, time.tv_sec, time.tv_nsec, device);
}

void read_kernel(const fs::path& path, const std::string& name, std::map<std::string, std::string>& all) {
  struct stat st {};
  // In a directory of one layer overlayfs lists whiteouts that it then does not find.
  if (::lstat(path.c_str(), &st) != 0 && errno == ENOENT) return;
  all[name] = describe(st.st_mode, st.st_uid, st.st_gid, st.st_mtim, st.st_rdev);
  if (S_ISLNK(st.st_mode)) all[name] += " " + fs::read_symlink(path).native();
  if (!S_ISDIR(st.st_mode)) return;
  for (const auto& entry : fs::directory_iterator(path))
    read_kernel(entry.path(), name + "/" + entry.path().filename().native(), all);
}

std::map<std::string, std::string> read_ours(World& world, const EnvTree& env) {
  std::map<std::string, std::string> all;
  const auto names = world.names();
  names->attach("e", std::shared_ptr<const EnvTree>(&env, [](const EnvTree*) {}));
  for (const auto& [path, seen] : walk(env)) {
    const Attributes& a = seen.attributes;
    all[path] =
        describe(type_bits(a.type) | a.mode, a.uid, a.gid,
                 {static_cast<time_t>(a.mtime.sec), static_cast<long>(a.mtime.nsec)}, makedev(a.major, a.minor));
    if (a.type == FileType::symlink) all[path] += " " + *names->symlink_target(a.id);
  }
  return all;
}

// Once for the process: what is mounted from here on goes away with it.
bool enter_mount_namespace() {
  static const bool entered =
      ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return entered;
}

// An overlay of these layers, gone at the end of the test.
class Mounted {
 public:
  Mounted(fs::path target, const std::string& lowers) : target_(std::move(target)) {
    REQUIRE(::mount("overlay", target_.c_str(), "overlay", MS_RDONLY, ("lowerdir=" + lowers).c_str()) == 0);
  }
  ~Mounted() { ::umount2(target_.c_str(), MNT_DETACH); }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

 private:
  fs::path target_;
};

void compare(std::uint64_t seed, std::size_t depth) {
  INFO("seed " << seed << ", " << depth << " layers");
  World world;
  Layers layers;
  std::string lowers;
  auto stack = random_stack(seed, depth);
  for (std::size_t i = 0; i < stack.size(); ++i) {
    stack[i].inode(0).opaque = false;  // the kernel does not look for the mark on the root of a layer
    const fs::path dir = world.dir() / ("layer" + std::to_string(i));
    const Unpacker unpacked(stack[i], dir);
    lowers = dir.native() + (lowers.empty() ? "" : ":") + lowers;
    layers.push_back(world.layer(stack[i]));
  }
  const fs::path target = world.dir() / "merged";
  fs::create_directory(target);
  const Mounted mounted(target, lowers);
  std::map<std::string, std::string> kernel;
  read_kernel(target, "", kernel);
  CHECK(read_ours(world, *world.env("e", std::move(layers))) == kernel);
}

TEST_CASE("random stacks show what the kernel's overlayfs shows") {
  if (::geteuid() != 0 || !enter_mount_namespace()) SKIP_TEST("mounting an overlay needs root");
  for (std::uint64_t seed = 1; seed <= 40; ++seed) compare(seed, 2 + seed % 5);
}

}  // namespace
}  // namespace dsec::tree::test
