// SPDX-License-Identifier: Apache-2.0
// Which layers of an environment become its object root, and how long it lives.
#include "daemon/object_roots.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "rootfs/roots_support.h"
#include "support/skip.h"

namespace dsec::daemon {
namespace {

namespace fs = std::filesystem;

struct Roots : test::RootsWorld {
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

// A file of the upper layer, and a lower layer that has something where overlayfs looks for the file's object.
std::shared_ptr<const tree::EnvTree> misleading(test::RootsWorld& test) {
  const std::string hex = sha256(as_bytes("right")).hex();
  const fs::path directory = test.objects / hex.substr(0, 2);
  fs::create_directories(directory);
  dsec::test::write_text(directory / hex.substr(2), "right");
  const std::string lower =
      fmt::format("/{0} directory\n/{0}/{1} regular content=wrong", hex.substr(0, 2), hex.substr(2));
  return test.world.env("e", {test.world.layer(lower), test.world.layer("/f regular content=right")});
}

TEST_CASE("a lower layer cannot put content in the place of an upper one's") {
  Roots test;
  if (!test.why_not().empty()) SKIP_TEST(test.why_not());
  const auto env = misleading(test);
  const auto refused = test.roots.root(*env);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK_THAT(refused.error().message, Catch::Contains(env->layers().front()->digest().hex()));
}

TEST_CASE("merged, layers are no lower layers of each other") {
  test::RootsWorld test;
  if (!test.why_not().empty()) SKIP_TEST(test.why_not());
  MergedImages images(test.world.dir() / "merged", {.when = MergedRoots::always, .quota_bytes = 1 << 20});
  ObjectRoots roots(test.objects, &images);
  const auto root = roots.root(*misleading(test));
  if (!root) FAIL(root.error().message);
  CHECK(dsec::test::read_text(fmt::format("/proc/self/fd/{}/f", (*root)->get())) == "right");
}

TEST_CASE("merged, an environment may have more layers than an overlayfs") {
  test::RootsWorld test;
  if (!test.why_not().empty()) SKIP_TEST(test.why_not());
  MergedImages images(test.world.dir() / "merged", {.when = MergedRoots::always, .quota_bytes = 1 << 20});
  ObjectRoots roots(test.objects, &images);
  tree::test::Layers layers;
  for (std::size_t i = 0; i <= rootfs::kMaxLowers; ++i) {
    layers.push_back(test.world.layer(fmt::format("/f{} regular", i)));
  }
  CHECK_FALSE(ObjectRoots(test.objects).root(*test.world.env("e", layers)));
  const auto root = roots.root(*test.world.env("e", layers));
  if (!root) FAIL(root.error().message);
  CHECK(test.has(*root, "f0"));
  CHECK(test.has(*root, fmt::format("f{}", rootfs::kMaxLowers)));
}

TEST_CASE("names like those of objects are fine in the uppermost layer") {
  Roots test;
  if (!test.why_not().empty()) SKIP_TEST(test.why_not());
  const auto env = misleading(test);
  const auto root = test.roots.root(*test.world.env("o", {env->layers()[1], env->layers()[0]}));
  if (!root) FAIL(root.error().message);
  CHECK(dsec::test::read_text(fmt::format("/proc/self/fd/{}/f", (*root)->get())) == "right");
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
