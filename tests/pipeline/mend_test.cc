// SPDX-License-Identifier: Apache-2.0
// Composing again what a damaged store cannot give any more.
#include <catch2/catch.hpp>

#include "composer/check.h"
#include "pipeline/compose_support.h"

namespace dsec::composer {
namespace {

using namespace compose_test;
namespace fs = std::filesystem;
using Temp = dsec::test::TempDir;

constexpr std::string_view kManifest =
    "version = 1\nname = \"both\"\n[[layer]]\nname = \"base\"\nfrom = \"dir:base\"\n"
    "[[layer]]\nname = \"kit\"\nfrom = \"dir:kit\"\ntarget = \"/opt/kit\"\n";

// A layer "base" in a pack of its own, and the source of another one.
struct Fixture {
  Fixture() {
    make_sample(dir / "base", 1);
    make_sample(dir / "kit", 1000);
    base = composed(store, "dir:" + (dir / "base").native(), "base");
    pack = store.list_packs()->at(0);
    map = read_text(map_path());
    contents = contents_of(store, base.env);
  }
  [[nodiscard]] fs::path map_path() const { return store.layer_map_path(base.layers[0].digest); }
  [[nodiscard]] Result<ComposeReport> compose_text(std::string_view text) const {
    return compose(store, TRY(parse_manifest(text, dir / "env.toml")), {});
  }
  void check_mended() const {
    const auto report = compose_text(kManifest);
    if (!report) FAIL(report.error().message);
    CHECK(report->layers[0].digest == base.layers[0].digest);
    CHECK(contents_of(store, base.env) == contents);
    CHECK(contents_of(store, report->env).size() == 2 * contents.size());
    const auto checked = check_store(store, {});
    REQUIRE(checked);
    for (const CheckProblem& problem : checked->problems) FAIL_CHECK(problem.what << ": " << problem.message);
  }
  Temp dir;
  store::Store store = new_store(dir / "store");
  ComposeReport base;
  Digest pack;
  std::string map;
  std::map<std::string, std::string> contents;
};

TEST_CASE("composing again mends a layer whose pack is gone") {
  const Fixture f;
  fs::remove(f.store.pack_path(f.pack));
  f.check_mended();
  CHECK(read_text(f.map_path()) != f.map);
  const std::string mended = read_text(f.map_path());
  f.check_mended();
  CHECK(read_text(f.map_path()) == mended);
}

TEST_CASE("composing again mends a layer whose map or image is damaged, gone or another one's") {
  for (const std::string how : {"map gone", "map damaged", "map of another", "image damaged", "image gone"}) {
    INFO(how);
    const Fixture f;
    const fs::path image = f.store.layer_image_path(f.base.layers[0].digest);
    if (how == "map gone") fs::remove(f.map_path());
    if (how == "map damaged") damage(f.map_path(), 40, "xx");
    if (how == "map of another") {
      const auto kit = composed(f.store, "dir:" + (f.dir / "kit").native(), "kit");
      fs::copy_file(f.store.layer_map_path(kit.layers[0].digest), f.map_path(), fs::copy_options::overwrite_existing);
    }
    if (how == "image damaged") damage(image, 1500, "xx");
    if (how == "image gone") fs::remove(image);
    f.check_mended();
    CHECK(read_text(f.map_path()) == f.map);  // all its chunks are where they were
  }
}

TEST_CASE("composing again mends a layer whose pack has no index any more") {
  const Fixture f;
  fs::resize_file(f.store.pack_path(f.pack), fs::file_size(f.store.pack_path(f.pack)) / 2);
  const auto report = f.compose_text(kManifest);
  REQUIRE(report);
  CHECK(contents_of(f.store, f.base.env) == f.contents);
}

TEST_CASE("a good map is left alone, also when its chunks are elsewhere, too") {
  const Fixture f;
  // Every chunk once more in another pack, as after an interrupted repack.
  const store::Store second = new_store(f.dir / "second");
  make_sample(f.dir / "more", 1);
  write_text(f.dir / "more/other", "makes it another pack");
  composed(second, "dir:" + (f.dir / "more").native(), "more");
  const Digest other = second.list_packs()->at(0);
  fs::create_directories(f.store.pack_path(other).parent_path());
  fs::copy_file(second.pack_path(other), f.store.pack_path(other));
  const auto written = fs::last_write_time(f.map_path());
  f.check_mended();
  CHECK(read_text(f.map_path()) == f.map);
  CHECK(fs::last_write_time(f.map_path()) == written);
  fs::remove(f.store.pack_path(f.pack));
  f.check_mended();
  CHECK(read_text(f.map_path()) != f.map);
}

TEST_CASE("a layer that is taken from the store must be readable there") {
  constexpr std::string_view kTakes =
      "version = 1\nname = \"both\"\n[[layer]]\nname = \"base\"\n[[layer]]\nname = \"kit\"\nfrom = \"dir:kit\"\n";
  const Fixture f;
  REQUIRE(f.compose_text(kTakes));
  for (const std::string how : {"pack", "map"}) {
    if (how == "pack") fs::remove(f.store.pack_path(f.pack));
    if (how == "map") write_text(f.map_path(), "no map");
    const auto report = f.compose_text(kTakes);
    REQUIRE_FALSE(report);
    CHECK(report.error().code == ErrorCode::corrupt);
    CHECK_THAT(report.error().message, Catch::Contains(f.base.layers[0].digest.hex()) &&
                                           Catch::Contains(f.map_path().native()) && Catch::Contains("from"));
  }
  f.check_mended();
  CHECK(f.compose_text(kTakes));
}

TEST_CASE("composing removes what a composer that was killed long ago left, and nothing younger") {
  const Fixture f;
  const fs::path old = f.store.tmp_dir() / "w-aaaaaa";
  const fs::path young = f.store.tmp_dir() / "w-bbbbbb";
  for (const fs::path& path : {old, young}) write_text(path, "half a pack");
  const auto now = fs::last_write_time(young);
  fs::last_write_time(old, now - kLitterAge - std::chrono::hours(1));
  fs::last_write_time(young, now - kLitterAge + std::chrono::hours(1));
  f.check_mended();
  CHECK_FALSE(fs::exists(old));
  CHECK(fs::exists(young));
}

}  // namespace
}  // namespace dsec::composer
