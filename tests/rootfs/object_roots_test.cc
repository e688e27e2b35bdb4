// SPDX-License-Identifier: Apache-2.0
// Which layers of an environment become its object root, and how long it lives.
#include "daemon/object_roots.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "rootfs/object_root.h"
#include "support/skip.h"
#include "tree/tree_support.h"

namespace dsec::daemon {
namespace {

namespace fs = std::filesystem;
using tree::test::World;

// With a directory of objects that has none: only names are looked at.
struct Roots {
  Roots() { fs::create_directories(objects); }
  [[nodiscard]] std::string why_not() const {
    if (::geteuid() != 0) return "mounting needs root";
    const auto works = rootfs::try_object_mode(world.dir().path());
    return works ? std::string() : works.error().message;
  }
  [[nodiscard]] bool has(const std::shared_ptr<const Fd>& root, const std::string& name) const {
    return open_at(*root, name, O_PATH).has_value();
  }
  World world;
  fs::path objects = world.dir().path() / "objects";
  ObjectRoots roots{objects};
};

TEST_CASE("layers below one with an opaque root do not show") {
  Roots test;
  if (!test.why_not().empty()) SKIP_TEST(test.why_not());
  format::LayerTree opaque;
  opaque.inode(format::LayerTree::root()).opaque = true;
  REQUIRE(opaque.add(format::LayerTree::root(), "middle", {}));
  const auto env = test.world.env(
      "e", {test.world.layer("/low regular"), test.world.layer(opaque), test.world.layer("/high regular")});
  const auto root = test.roots.root(*env);
  if (!root) FAIL(root.error().message);
  CHECK(test.has(*root, "high"));
  CHECK(test.has(*root, "middle"));
  CHECK_FALSE(test.has(*root, "low"));
}

TEST_CASE("a layer that is there twice counts where it is uppermost") {
  Roots test;
  if (!test.why_not().empty()) SKIP_TEST(test.why_not());
  const auto twice = test.world.layer("/f regular mode=0600");
  const auto between = test.world.layer("/f regular mode=0644\n/g regular");
  const auto root = test.roots.root(*test.world.env("e", {twice, between, twice}));
  if (!root) FAIL(root.error().message);
  struct stat st {};
  REQUIRE(::fstatat((*root)->get(), "f", &st, 0) == 0);
  CHECK((st.st_mode & 0777) == 0600);
  CHECK(test.has(*root, "g"));
}

TEST_CASE("an environment has one root until it is dropped, and who uses it keeps it") {
  Roots test;
  if (!test.why_not().empty()) SKIP_TEST(test.why_not());
  const auto env = test.world.env("e", {test.world.layer("/f regular")});
  CHECK_FALSE(test.roots.verdict());
  const auto first = test.roots.root(*env);
  REQUIRE(first);
  CHECK(test.roots.verdict()->has_value());
  CHECK(*test.roots.root(*env) == *first);
  test.roots.drop(env->digest());
  CHECK(test.has(*first, "f"));
  const auto second = test.roots.root(*env);
  REQUIRE(second);
  CHECK(*second != *first);
}

TEST_CASE("marks of overlayfs that came with the input are refused, by the name of their layer") {
  Roots test;
  const auto marked = test.world.layer("/d char_device device=0:0");
  const auto root = test.roots.root(*test.world.env("e", {test.world.layer("/f regular"), marked}));
  REQUIRE_FALSE(root);
  CHECK(root.error().code == ErrorCode::unsupported);
  CHECK_THAT(root.error().message, Catch::Contains(marked->digest().hex()));
}

}  // namespace
}  // namespace dsec::daemon
