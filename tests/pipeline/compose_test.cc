// SPDX-License-Identifier: Apache-2.0
#include "composer/compose.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "composer/check.h"
#include "composer/sources_support.h"
#include "pipeline/compose_support.h"
#include "support/skip.h"

namespace dsec::composer {
namespace {

using namespace compose_test;
using format::RefKind;
namespace fs = std::filesystem;
using Temp = dsec::test::TempDir;

std::string dir_source(const fs::path& path) { return "dir:" + path.native(); }

Result<ComposeReport> compose_text(const store::Store& store, const fs::path& dir, std::string_view text,
                                   ComposeOptions options = {}) {
  return compose(store, TRY(parse_manifest(text, dir / "env.toml")), options);
}

TEST_CASE("a directory becomes an environment that holds exactly its bytes") {
  const Temp dir;
  make_sample(dir / "tree", 1);
  const store::Store store = new_store(dir / "store");
  const ComposeReport report = composed(store, dir_source(dir / "tree"), "sample");
  CHECK(*store.resolve(RefKind::env, "sample") == report.env);
  const auto contents = contents_of(store, report.env);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir / "tree")) {
    if (!entry.is_regular_file()) continue;
    ++files;
    const std::string path = "/" + entry.path().lexically_relative(dir / "tree").native();
    INFO(path);
    REQUIRE(contents.count(path) == 1);
    CHECK(contents.at(path) == read_text(entry.path()));
  }
  CHECK(contents.size() == files);
  CHECK(check_store(store, {})->problems.empty());
  CHECK(count_files(store.tmp_dir()) == 0);
}

TEST_CASE("the same input gives the same store, whatever the number of jobs") {
  const Temp dir;
  make_sample(dir / "tree", 1);
  std::map<std::string, std::string> first;
  for (const unsigned jobs : {1u, 2u, 4u}) {
    const store::Store store = new_store(dir / std::to_string(jobs));
    composed(store, dir_source(dir / "tree"), "sample", jobs);
    if (first.empty()) first = files_of(store);
    CHECK(files_of(store) == first);
  }
}

TEST_CASE("composing again writes nothing new; a change writes about what changed") {
  const Temp dir;
  make_sample(dir / "tree", 1);
  const store::Store store = new_store(dir / "store");
  const ComposeReport first = composed(store, dir_source(dir / "tree"), "sample");
  const ComposeReport again = composed(store, dir_source(dir / "tree"), "sample");
  CHECK(again.env == first.env);
  CHECK(again.stats.pack_bytes == 0);
  CHECK(again.layers[0].reused);
  damage(dir / "tree/big", 1 << 20, "changed");
  const ComposeReport changed = composed(store, dir_source(dir / "tree"), "sample");
  CHECK(changed.env != first.env);
  CHECK(changed.stats.pack_bytes < 600 << 10);
  CHECK(*store.resolve(RefKind::env, "sample") == changed.env);
  CHECK(contents_of(store, first.env).size() == contents_of(store, changed.env).size());
}

TEST_CASE("a layer that is replaced leaves the others alone") {
  const Temp dir;
  make_sample(dir / "base", 1);
  make_sample(dir / "kit", 1000);
  const store::Store store = new_store(dir / "store");
  constexpr std::string_view kManifest =
      "version = 1\nname = \"e\"\n[[layer]]\nname = \"base@1\"\nfrom = \"dir:base\"\n[[layer]]\nname = \"kit@1\"\nfrom "
      "= "
      "\"dir:kit\"\ntarget = \"/opt/kit\"\n";
  const auto first = compose_text(store, dir.path(), kManifest);
  REQUIRE(first);
  write_text(dir / "kit/sub/f1", "new");
  // The base is taken from the store: its directory need not be there any more.
  fs::remove_all(dir / "base");
  const auto second = compose_text(store, dir.path(),
                                   "version = 1\nname = \"e\"\n[[layer]]\nname = \"base@1\"\n[[layer]]\nname = "
                                   "\"kit@1\"\nfrom = \"dir:kit\"\ntarget = \"/opt/kit\"\n");
  if (!second) FAIL(second.error().message);
  CHECK(second->layers[0].digest == first->layers[0].digest);
  CHECK(second->layers[0].reused);
  CHECK(second->layers[1].digest != first->layers[1].digest);
  CHECK(second->stats.pack_bytes < 2000);
  CHECK(contents_of(store, second->env).at("/opt/kit/sub/f1") == "new");
  CHECK(check_store(store, {})->problems.empty());
}

TEST_CASE("a layer that is not in the store is not found, with the line that asks for it") {
  const Temp dir;
  const store::Store store = new_store(dir / "store");
  const auto report = compose_text(store, dir.path(), "version = 1\nname = \"e\"\n[[layer]]\nname = \"gone@1\"\n");
  REQUIRE_FALSE(report);
  CHECK(report.error().code == ErrorCode::not_found);
  CHECK_THAT(report.error().message, Catch::Contains("env.toml:3") && Catch::Contains("gone@1"));
}

TEST_CASE("a source that fails leaves the store as it was") {
  const Temp dir;
  make_sample(dir / "tree", 1);
  const store::Store store = new_store(dir / "store");
  composed(store, dir_source(dir / "tree"), "sample");
  const auto before = files_of(store);
  make_sample(dir / "other", 2);
  composer::test::shell(dir.path(), "tar -C other -cf cut.tar . && truncate -s 5000000 cut.tar; echo junk > junk.tar");
  for (const std::string& source : {"tar:" + (dir / "cut.tar").native(), "tar:" + (dir / "junk.tar").native(),
                                    std::string("dir:/nonexistent"), std::string("nonsense")}) {
    const auto report = try_compose(store, source, "other");
    INFO(source);
    CHECK_FALSE(report);
    CHECK(files_of(store) == before);
    CHECK(count_files(store.tmp_dir()) == 0);
  }
}

TEST_CASE("the configuration is that of the images, then the manifest's") {
  const Temp dir;
  fs::create_directory(dir / "tree");
  const store::Store store = new_store(dir / "store");
  const auto report =
      compose_text(store, dir.path(),
                   "version = 1\nname = \"e\"\n[[layer]]\nname = \"l\"\nfrom = \"dir:tree\"\n[config]\ncmd = "
                   "[\"a\"]\nuser = \"u\"\nworkdir = \"/w\"\nenv = { A = \"1\" }\n");
  REQUIRE(report);
  const format::RunConfig config = store.read_env(report->env)->config;
  CHECK(config.cmd == std::vector<std::string>{"a"});
  CHECK(config.user == "u");
  CHECK(config.workdir == "/w");
  CHECK(config.env == std::vector<std::pair<std::string, std::string>>{{"A", "1"}});
}

TEST_CASE("strict turns warnings into errors and keeps nothing") {
  const Temp dir;
  fs::create_directories(dir / "base/usr/lib");
  fs::create_directory_symlink("usr/lib", dir / "base/lib");
  fs::create_directories(dir / "top/lib");
  const store::Store store = new_store(dir / "store");
  constexpr std::string_view kManifest =
      "version = 1\nname = \"e\"\n[[layer]]\nname = \"b\"\nfrom = \"dir:base\"\n[[layer]]\nname = \"t\"\nfrom = "
      "\"dir:top\"\n";
  ComposeOptions options;
  options.strict = ComposeOptions::Strict::yes;
  const auto refused = compose_text(store, dir.path(), kManifest, options);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::Contains("/lib"));
  CHECK(files_of(store).empty());
  const auto warned = compose_text(store, dir.path(), kManifest);
  REQUIRE(warned);
  CHECK(warned->warnings.size() == 1);
}

TEST_CASE("an image's layers become layers, or one when squashed, with the same content") {
  if (::geteuid() != 0) SKIP_TEST("making the image needs root");
  for (const char* program : {"umoci", "setcap", "busybox"}) {
    if (!test::have_program(program)) SKIP_TEST(std::string("needs ") + program);
  }
  const Temp dir;
  test::shell(dir.path(), "bash " DSEC_TEST_DIR "/../support/make_small_image.sh image");
  const store::Store store = new_store(dir / "store");
  const std::string source = "oci:" + (dir / "image/small").native();
  CHECK(composed(store, source + ":v1", "e:v1").layers.size() == 1);
  const ComposeReport v3 = composed(store, source + ":v3", "e:v3");
  CHECK(v3.layers.size() == 3);
  CHECK(v3.layers[0].reused);
  CHECK(store.read_env(v3.env)->config.cmd == std::vector<std::string>{"sh"});
  ComposePlan plan;
  plan.name = {"squashed", "latest"};
  plan.layers.push_back({{"squashed", "latest"}, source + ":v2", "", ""});
  ComposeOptions options;
  options.squash = ComposeOptions::Squash::yes;
  const auto squashed = compose(store, plan, options);
  REQUIRE(squashed);
  CHECK(squashed->layers.size() == 1);
  CHECK(squashed->stats.new_chunks == 0);
  CHECK(check_store(store, {})->problems.empty());
}

}  // namespace
}  // namespace dsec::composer
