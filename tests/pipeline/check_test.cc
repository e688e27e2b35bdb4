// SPDX-License-Identifier: Apache-2.0
#include "composer/check.h"

#include <catch2/catch.hpp>

#include "pipeline/compose_support.h"

namespace dsec::composer {
namespace {

using namespace compose_test;
using format::RefKind;
namespace fs = std::filesystem;
using Temp = dsec::test::TempDir;
using Names = std::vector<std::string>;

// Two environments with a layer each, in packs of their own.
struct Fixture {
  Fixture() {
    make_sample(dir / "one", 1);
    make_sample(dir / "two", 1000);
    one = composed(store, "dir:" + (dir / "one").native(), "one");
    pack_one = store.list_packs()->at(0);
    two = composed(store, "dir:" + (dir / "two").native(), "two");
  }
  [[nodiscard]] CheckReport check() const {
    auto report = check_store(store, {});
    if (!report) FAIL(report.error().message);
    return std::move(*report);
  }
  // The problems of a kind; there must be some.
  [[nodiscard]] std::vector<CheckProblem> problems(const std::string& what) const {
    std::vector<CheckProblem> found;
    std::string all;
    for (const CheckProblem& problem : check().problems) {
      all += problem.what + " " + problem.name + ": " + problem.message + "\n";
      if (problem.what == what) found.push_back(problem);
    }
    INFO(all);
    REQUIRE_FALSE(found.empty());
    return found;
  }

  [[nodiscard]] Digest layer() const { return one.layers[0].digest; }  // of the first environment

  Temp dir;
  store::Store store = new_store(dir / "store");
  ComposeReport one;
  ComposeReport two;
  Digest pack_one;
};

TEST_CASE("a good store has no problems and is counted") {
  const Fixture f;
  const CheckReport report = f.check();
  CHECK(report.problems.empty());
  CHECK(report.packs == 2);
  CHECK(report.layers == 2);
  CHECK(report.refs == 4);
  CHECK(report.chunks > 50);
  std::size_t lines = 0;
  REQUIRE(check_store(f.store, [&](const std::string&) { ++lines; }));
  CHECK(lines >= 4);
}

TEST_CASE("a flipped byte in a pack names the chunk, the pack, the layer and the environment that is hurt") {
  const Fixture f;
  damage(f.store.pack_path(f.pack_one), 1000, "\xde\xad");
  const auto pack = f.problems("pack");
  CHECK(pack[0].name == f.pack_one.hex());
  CHECK_THAT(pack[0].message, Catch::Contains("chunk"));
  CHECK(pack[0].hurts == Names{"one:latest"});
  const auto map = f.problems("map");
  CHECK(map[0].name == f.one.layers[0].digest.hex());
  CHECK(map[0].hurts == Names{"one:latest"});
}

TEST_CASE("two damaged packs each name what they hurt") {
  const Fixture f;
  const auto packs = f.store.list_packs();
  for (const Digest& pack : *packs) damage(f.store.pack_path(pack), 1000, "\xde\xad");
  for (const CheckProblem& problem : f.problems("pack")) {
    const bool is_one = problem.name == f.pack_one.hex();
    CHECK(problem.hurts == Names{is_one ? "one:latest" : "two:latest"});
  }
}

TEST_CASE("packs that are gone, cut short or have a damaged index") {
  for (const std::string how : {"gone", "cut", "index", "header"}) {
    INFO(how);
    const Fixture f;
    const fs::path pack = f.store.pack_path(f.pack_one);
    const auto size = fs::file_size(pack);
    if (how == "gone") fs::remove(pack);
    if (how == "cut") fs::resize_file(pack, size / 2);
    if (how == "index") damage(pack, size - 200, "xxxx");
    if (how == "header") damage(pack, 3, "x");
    if (how == "header") {
      CHECK(f.problems("pack")[0].name == f.pack_one.hex());
      continue;
    }
    CHECK(f.problems("map")[0].hurts == Names{"one:latest"});
  }
}

TEST_CASE("layer images and maps that are damaged or gone") {
  const Fixture damaged;
  damage(damaged.store.layer_image_path(damaged.layer()), 1500, "xx");
  CHECK(damaged.problems("layer")[0].hurts == Names{"one:latest"});

  const Fixture gone;
  fs::remove(gone.store.layer_image_path(gone.layer()));
  CHECK(gone.problems("env")[0].name == gone.one.env.hex());
  CHECK(gone.problems("env")[0].hurts == Names{"one:latest"});

  const Fixture no_map;
  fs::remove(no_map.store.layer_map_path(no_map.layer()));
  CHECK(no_map.problems("map")[0].hurts == Names{"one:latest"});

  const Fixture swapped;
  fs::copy_file(swapped.store.layer_map_path(swapped.two.layers[0].digest),
                swapped.store.layer_map_path(swapped.layer()), fs::copy_options::overwrite_existing);
  CHECK_THAT(swapped.problems("map")[0].message, Catch::Contains("objects cannot be read"));
}

TEST_CASE("environments and refs that are damaged or name nothing") {
  const Fixture damaged;
  damage(damaged.store.env_path(damaged.one.env), 5, "x");
  CHECK(damaged.problems("env")[0].name == damaged.one.env.hex());
  CHECK(damaged.problems("env")[0].hurts == Names{"one:latest"});

  const Fixture dangling;
  REQUIRE(dangling.store.write_ref(RefKind::env, {"lost", "1"}, digest_of("nothing")));
  const auto refs = dangling.problems("ref");
  CHECK(refs[0].name == "lost:1");
  CHECK_THAT(refs[0].message, Catch::Contains(digest_of("nothing").hex()));

  const Fixture garbled;
  write_text(garbled.store.root() / "refs/env/one/latest.ref", "garbage");
  const auto found = garbled.problems("ref");
  CHECK(found[0].name == "one:latest");
  CHECK_THAT(found[0].message, Catch::Contains("latest.ref"));
}

TEST_CASE("an environment without a name is hurt under its digest") {
  const Fixture f;
  REQUIRE(f.store.remove_ref(RefKind::env, {"one", "latest"}));
  REQUIRE(f.store.remove_ref(RefKind::layer, {"one", "latest"}));
  damage(f.store.pack_path(f.pack_one), 1000, "\xde\xad");
  const auto pack = f.problems("pack");
  CHECK(std::find(pack[0].hurts.begin(), pack[0].hurts.end(), f.one.env.hex()) != pack[0].hurts.end());
}

TEST_CASE("litter in tmp/ is no problem, but counted") {
  const Fixture f;
  CHECK(f.check().unfinished.files == 0);
  write_text(f.store.tmp_dir() / "half", "of something else");
  write_text(f.store.tmp_dir() / "w-aB3xYz", "litter");
  const CheckReport report = f.check();
  CHECK(report.problems.empty());
  CHECK(report.unfinished.files == 1);
  CHECK(report.unfinished.bytes == 6);
}

TEST_CASE("a damaged image or map is named once, with its file") {
  const Fixture f;
  damage(f.store.layer_image_path(f.layer()), 1500, "xx");
  damage(f.store.layer_map_path(f.two.layers[0].digest), 30, "xx");
  const auto layer = f.problems("layer");
  CHECK_THAT(layer[0].message, Catch::Contains(f.store.layer_image_path(f.layer()).native()));
  CHECK_THAT(layer[0].message, !Catch::Contains("layer " + f.layer().hex()));
  const auto map = f.problems("map");
  CHECK_THAT(map[0].message, Catch::Contains(f.store.layer_map_path(f.two.layers[0].digest).native()));
}

}  // namespace
}  // namespace dsec::composer
