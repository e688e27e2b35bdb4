// SPDX-License-Identifier: Apache-2.0
// When merged images are made, kept, used and given up.
#include "daemon/merged_images.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <thread>

#include "rootfs/roots_support.h"
#include "support/skip.h"

namespace dsec::daemon {
namespace {

namespace fs = std::filesystem;
using dsec::test::count_files;
using tree::EnvTree;

constexpr std::uint64_t kQuota = 100 << 20;

struct Merging : test::RootsWorld {
  explicit Merging(MergedOptions options = {.quota_bytes = kQuota}) { start(options); }
  void stop() {
    roots.reset();
    images.reset();
  }
  void start(MergedOptions options) {
    stop();
    images = std::make_unique<MergedImages>(dir, options);
    roots = std::make_unique<ObjectRoots>(objects, images.get());
  }
  // Two layers; `name` is a file of the upper one.
  std::shared_ptr<const EnvTree> env(const std::string& name) {
    return world.env(name, {world.layer("/low regular"), world.layer(fmt::format("/{} regular\n/d directory", name))});
  }
  // A root that lists names of both layers.
  std::shared_ptr<const Fd> root(const std::shared_ptr<const EnvTree>& env, const std::string& name) {
    auto root = roots->root(*env);
    if (!root) FAIL(root.error().message);
    CHECK(has(*root, "low"));
    CHECK(has(*root, name));
    return *root;
  }
  [[nodiscard]] std::uint64_t figure(const char* name) const { return images->describe()[name].get<std::uint64_t>(); }
  void wait_for_work() const {
    while (figure("waiting") > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // An object root of one lower layer counts the links of a directory that several layers have.
  static bool is_merged(const std::shared_ptr<const Fd>& root) {
    struct stat st {};
    REQUIRE(::fstat(root->get(), &st) == 0);
    return st.st_nlink > 1;
  }
  [[nodiscard]] fs::path image_of(const std::shared_ptr<const EnvTree>& env) const {
    return dir / (env->digest().hex() + ".1.erofs");
  }

  fs::path dir = world.dir() / "merged";
  std::unique_ptr<MergedImages> images;
  std::unique_ptr<ObjectRoots> roots;
};

#define NEED_OBJECT_MODE(test) \
  if (!(test).why_not().empty()) SKIP_TEST((test).why_not())

TEST_CASE("an image is made at the second request and used from then on; who has the root of the layers keeps it") {
  Merging test;
  NEED_OBJECT_MODE(test);
  const auto env = test.env("a");
  const auto first = test.root(env, "a");
  test.wait_for_work();
  CHECK(test.figure("built") == 0);
  test.root(env, "a");
  test.wait_for_work();
  CHECK(test.figure("built") == 1);
  CHECK(test.figure("images") == 1);
  CHECK(test.figure("bytes") == fs::file_size(test.image_of(env)));
  const auto merged = test.root(env, "a");
  CHECK(test.is_merged(merged));
  CHECK(test.root(env, "a") == merged);
  CHECK_FALSE(test.is_merged(first));
  CHECK(test.has(first, "low"));
}

TEST_CASE("with always the first request waits for the image") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  CHECK(test.is_merged(test.root(test.env("a"), "a")));
}

TEST_CASE("an image of an earlier process is used at once") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  const auto env = test.env("a");
  test.root(env, "a");
  test.start({.quota_bytes = kQuota});
  CHECK(test.is_merged(test.root(env, "a")));
  CHECK(test.figure("built") == 0);
}

TEST_CASE("environments of one layer that shows get none") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  const auto layer = test.world.layer("/low regular\n/a regular");
  format::LayerTree opaque;
  opaque.inode(format::LayerTree::root()).opaque = true;
  for (const char* name : {"low", "a"}) REQUIRE(opaque.add(format::LayerTree::root(), name, {}));
  test.root(test.world.env("one", {layer}), "a");
  test.root(test.world.env("twice", {layer, layer}), "a");
  test.root(test.world.env("opaque", {layer, test.world.layer(opaque)}), "a");
  CHECK(test.figure("built") == 0);
}

TEST_CASE("a damaged image is not shown but made again, without another request") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  const auto env = test.env("a");
  test.root(env, "a");
  const std::string good = dsec::test::read_text(test.image_of(env));
  test.start({.quota_bytes = kQuota});
  dsec::test::damage(test.image_of(env), 2000, "x");
  CHECK_FALSE(test.is_merged(test.root(env, "a")));
  test.wait_for_work();
  CHECK(test.is_merged(test.root(env, "a")));
  CHECK(dsec::test::read_text(test.image_of(env)) == good);
}

TEST_CASE("what a killed process left and images of other versions are removed") {
  Merging test;
  const auto env = test.env("a");
  test.stop();
  fs::create_directories(test.dir / "tmp");
  const fs::path stale = test.dir / "tmp/w-abcdef";
  const fs::path old = test.dir / (env->digest().hex() + ".0.erofs");
  dsec::test::write_text(stale, "half");
  dsec::test::write_text(old, "old");
  test.start({.quota_bytes = kQuota});
  while (fs::exists(stale) || fs::exists(old)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_CASE("what another process that lives is writing stays") {
  Merging test;
  while (!fs::exists(test.dir / "lock")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  MergedDir other(test.dir, kQuota);
  dsec::test::write_text(test.dir / "tmp/w-abcdef", "half");
  REQUIRE(other.prepare());
  CHECK(fs::exists(test.dir / "tmp/w-abcdef"));
}

TEST_CASE("the least recently used images go when the quota is full; mounted ones live on") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  const auto a = test.env("a");
  const auto b = test.env("b");
  const auto root_b = test.root(b, "b");
  test.root(a, "a");
  const std::uint64_t one = fs::file_size(test.image_of(a));
  test.start({.when = MergedRoots::always, .quota_bytes = 2 * one});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // file times are that coarse
  test.root(b, "b");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  test.root(a, "a");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  test.root(b, "b");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  test.root(test.env("c"), "c");
  CHECK_FALSE(fs::exists(test.image_of(a)));
  CHECK(fs::exists(test.image_of(b)));
  CHECK(test.figure("images") == 2);
  test.start({.quota_bytes = 0});
  while (fs::exists(test.image_of(b))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(test.has(root_b, "low"));
}

TEST_CASE("each time that the quota took an image away it takes twice as many requests to make it again") {
  Merging test;
  NEED_OBJECT_MODE(test);
  const auto env = test.env("a");
  std::vector<std::uint64_t> made;
  for (std::uint64_t request = 1; request <= 14; ++request) {
    test.root(env, "a");
    test.roots->drop(env->digest());
    test.wait_for_work();
    if (fs::remove(test.image_of(env))) made.push_back(request);
  }
  CHECK(made == std::vector<std::uint64_t>{2, 6, 14});
}

TEST_CASE("an image that is larger than the quota is given up once") {
  Merging test({.when = MergedRoots::always, .quota_bytes = 1000});
  NEED_OBJECT_MODE(test);
  const auto env = test.env("a");
  for (int i = 0; i < 3; ++i) CHECK_FALSE(test.is_merged(test.root(env, "a")));
  CHECK(test.figure("failed") == 1);
  CHECK(count_files(test.dir / "tmp") == 0);
}

TEST_CASE("without a quota nothing is made") {
  Merging test({.when = MergedRoots::always, .quota_bytes = 0});
  NEED_OBJECT_MODE(test);
  CHECK_FALSE(test.is_merged(test.root(test.env("a"), "a")));
  CHECK(test.figure("failed") == 0);
}

TEST_CASE("a directory that takes no file is left alone for a while, then tried again") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  test.stop();
  fs::remove_all(test.dir);
  dsec::test::write_text(test.dir, "no directory");
  test.start({.when = MergedRoots::always, .quota_bytes = kQuota});
  const auto a = test.env("a");
  const auto b = test.env("b");
  for (const auto& [env, name] : {std::pair(a, "a"), std::pair(b, "b"), std::pair(a, "a")}) {
    CHECK_FALSE(test.is_merged(test.root(env, name)));
  }
  CHECK(test.figure("failed") == 1);
  test.start({.when = MergedRoots::always, .quota_bytes = kQuota, .pause_after_failure = std::chrono::milliseconds(0)});
  CHECK_FALSE(test.is_merged(test.root(a, "a")));
  fs::remove(test.dir);
  CHECK(test.is_merged(test.root(a, "a")));
}

TEST_CASE("requests from many threads make one image and one root") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  const auto env = test.env("a");
  std::vector<std::thread> threads;
  std::atomic<int> merged = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto root = test.roots->root(*env);
      struct stat st {};
      if (root && ::fstat((*root)->get(), &st) == 0 && st.st_nlink > 1) ++merged;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(merged == 8);
  CHECK(test.figure("built") == 1);
  CHECK(test.root(env, "a") == test.root(env, "a"));
}

TEST_CASE("an environment that is dropped meanwhile gets a root of its image when it comes again") {
  Merging test;
  NEED_OBJECT_MODE(test);
  const auto env = test.env("a");
  test.root(env, "a");
  test.root(env, "a");
  test.roots->drop(env->digest());
  test.wait_for_work();
  CHECK(test.is_merged(test.root(env, "a")));
}

TEST_CASE("once stopped, nobody waits and nothing is made") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  test.images->stop();
  CHECK_FALSE(test.is_merged(test.root(test.env("a"), "a")));
  CHECK(test.images->rests(std::chrono::seconds(10)));
}

TEST_CASE("stopped while somebody waits, that one gets a root and the thread ends without a half image") {
  Merging test({.when = MergedRoots::always, .quota_bytes = kQuota});
  NEED_OBJECT_MODE(test);
  std::string many = "/low regular";
  for (int i = 0; i < 20000; ++i) many += fmt::format("\n/f{0}{1} regular", i, i);
  const auto env = test.world.env("e", {test.world.layer(many), test.world.layer("/high regular")});
  std::thread waiting([&] { CHECK(test.roots->root(*env)); });
  while (test.figure("waiting") == 0 && test.figure("built") == 0) std::this_thread::yield();
  test.images->stop();
  waiting.join();
  CHECK(test.images->rests(std::chrono::seconds(10)));
  CHECK(test.figure("failed") == 0);
  CHECK(count_files(test.dir / "tmp") == 0);
}

}  // namespace
}  // namespace dsec::daemon
