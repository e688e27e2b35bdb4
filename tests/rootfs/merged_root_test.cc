// SPDX-License-Identifier: Apache-2.0
// The kernel's view of a merged image against its view of the layers.
#include <sys/stat.h>
#include <sys/xattr.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <map>
#include <set>

#include "base/mounts.h"
#include "rootfs/roots_support.h"
#include "support/skip.h"
#include "tree/merged_tree.h"
#include "tree/random_stack.h"
#include "tree/tree_walk.h"

namespace dsec::daemon {
namespace {

namespace fs = std::filesystem;
using tree::test::Contents;
using tree::test::Layers;

// What stat(2), readlink(2) and getxattr(2) say of everything in a tree.
struct Facts {
  std::string text;
  nlink_t links = 0;
  bool is_directory = false;
  std::uint64_t number = 0;
};
using Seen = std::map<std::string, Facts>;

std::string xattrs_of(const fs::path& path) {
  char names[1000];
  const ssize_t size = ::llistxattr(path.c_str(), names, sizeof names);
  REQUIRE(size >= 0);
  std::map<std::string, std::string> all;
  for (const char* name = names; name < names + size; name += std::string(name).size() + 1) {
    char value[1000];
    const ssize_t length = ::lgetxattr(path.c_str(), name, value, sizeof value);
    REQUIRE(length >= 0);
    all[name] = std::string(value, static_cast<std::size_t>(length));
  }
  std::string text;
  for (const auto& [name, value] : all) text += fmt::format(" {}={}", name, value);
  return text;
}

void look(const fs::path& path, const std::string& name, Seen& all) {
  struct stat st {};
  REQUIRE(::lstat(path.c_str(), &st) == 0);
  Facts& facts = all[name];
  facts.is_directory = S_ISDIR(st.st_mode);
  facts.links = st.st_nlink;
  facts.number = st.st_ino;
  // The size of a directory is that of its data in one image.
  facts.text =
      fmt::format("{:o} {}:{} {} {}.{} {}{}", st.st_mode, st.st_uid, st.st_gid, facts.is_directory ? 0 : st.st_size,
                  st.st_mtim.tv_sec, st.st_mtim.tv_nsec, st.st_rdev, xattrs_of(path));
  if (S_ISLNK(st.st_mode)) facts.text += " " + fs::read_symlink(path).native();
  if (!facts.is_directory) return;
  for (const auto& entry : fs::directory_iterator(path)) {
    struct stat child {};
    // In a directory of one layer overlayfs lists whiteouts that it then does not find.
    if (::lstat(entry.path().c_str(), &child) != 0 && errno == ENOENT) continue;
    look(entry.path(), name + "/" + entry.path().filename().native(), all);
  }
}

Seen look(const Fd& root) {
  Seen all;
  look(fmt::format("/proc/self/fd/{}/.", root.get()), "", all);
  return all;
}

Result<Fd> mount(const std::vector<const store::Layer*>& layers, const Fd& objects) {
  std::vector<Fd> mounts;
  for (const auto* layer : layers) mounts.push_back(TRY(rootfs::mount_layer(layer->image_path())));
  std::vector<const Fd*> lowers;
  for (auto it = mounts.rbegin(); it != mounts.rend(); ++it) lowers.push_back(&*it);
  return rootfs::mount_object_root(lowers, objects);
}

void compare(test::RootsWorld& test, std::uint64_t seed, std::size_t depth) {
  INFO("seed " << seed << ", " << depth << " layers");
  Layers layers;
  std::vector<const store::Layer*> shown;
  for (format::LayerTree& tree : tree::test::random_stack(seed, depth, Contents::some)) {
    tree.inode(0).opaque = false;  // the kernel does not look for the mark on the root of a layer
    layers.push_back(test.world.layer(tree));
    shown.push_back(layers.back().get());
  }
  const auto one = tree::merged_tree(layers, [] { return false; });
  REQUIRE(one);
  const auto image = test.world.layer(*one);
  const auto objects = copy_mount(test.objects);
  REQUIRE(objects);
  const auto root = mount(shown, *objects);
  const auto merged_root = mount({image.get()}, *objects);
  REQUIRE(root);
  REQUIRE(merged_root);
  const Seen expected = look(*root);
  const Seen found = look(*merged_root);
  const auto stitched = tree::test::walk(*test.world.env(fmt::format("e{}", seed), layers));
  REQUIRE(found.size() == expected.size());
  REQUIRE(found.size() == stitched.size());
  std::map<std::uint64_t, std::uint64_t> numbers;
  for (const auto& [path, facts] : expected) {
    INFO(path);
    REQUIRE(found.count(path) == 1);
    const Facts& other = found.at(path);
    CHECK(other.text == facts.text);
    CHECK(other.links == stitched.at(path).attributes.nlink);
    CHECK(numbers.emplace(facts.number, other.number).first->second == other.number);
  }
  std::set<std::uint64_t> distinct;
  for (const auto& [number, other] : numbers) distinct.insert(other);
  CHECK(distinct.size() == numbers.size());
}

TEST_CASE("a merged image mounted is what its layers are, with the link counts of tree mode") {
  test::RootsWorld test;
  if (!test.why_not().empty()) SKIP_TEST(test.why_not());
  for (std::uint64_t seed = 1; seed <= 40; ++seed) compare(test, seed, 2 + seed % 5);
}

}  // namespace
}  // namespace dsec::daemon
