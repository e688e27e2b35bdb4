// SPDX-License-Identifier: Apache-2.0
// docker-archive: sources.
#include <catch2/catch.hpp>

#include "composer/sources_support.h"
#include "support/skip.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;
using Catch::Contains;

namespace {

const std::filesystem::path& archives() {
  static const TempDir dir;
  static const std::string made = shell(dir.path(), "python3 " DSEC_TEST_DIR "/docker_archives.py .");
  return dir.path();
}

std::string tree(const std::string& spec) {
  const auto read = read_source("docker-archive:" + spec, archives());
  if (!read) return read.error().message;
  return outline(read->merged.tree());
}

constexpr const char* kGood = "/0:0 char_device device=0:0\n/d directory\n/d/new regular\n";

}  // namespace

TEST_CASE("docker archives are read: plain, compressed outside, compressed layers, linked layers") {
  for (const char* name : {"plain", "outer.gz", "outer.zst", "inner_gzip", "symlinked", "hardlinked"}) {
    INFO(name);
    CHECK(tree(name) == kGood);
  }
}

TEST_CASE("an image is chosen by its tag") {
  CHECK(tree("two:docker.io/library/one:1") == kGood);
  CHECK(tree("two:one:1") == kGood);
  CHECK(tree("two:two") == "/d directory\n/d/old regular\n/gone regular\n");
  CHECK_THAT(tree("two"), Contains("2 images") && Contains("docker.io/library/one:1"));
  CHECK_THAT(tree("two:three"), Contains("no image is named \"three\""));
}

TEST_CASE("the configuration of a docker archive is read") {
  const auto source = open_source("docker-archive:plain", archives());
  REQUIRE(source);
  REQUIRE((*source)->config() != nullptr);
  CHECK((*source)->config()->cmd == std::vector<std::string>{"/one"});
  CHECK((*source)->layer(0).value()->identity().diff_id);
}

TEST_CASE("docker archives that are broken say how") {
  CHECK_THAT(tree("no_manifest"), Contains("manifest.json"));
  CHECK_THAT(tree("no_layer"), Contains("there is no file \"missing.tar\""));
  CHECK_THAT(tree("link_loop"), Contains("links"));
  CHECK_THAT(tree("bad_diff_id"), Contains("diff_id"));
  CHECK_THAT(tree("layer_count"), Contains("manifest.json has 1 layers, the configuration 2"));
  CHECK_THAT(tree("cut"), Contains("ends"));
  CHECK(open_source("docker-archive:none", archives()).error().code == ErrorCode::not_found);
  CHECK(open_source("docker-archive:no_manifest", archives()).error().code == ErrorCode::invalid);
}

TEST_CASE("skopeo's docker archives are the image they were copied from") {
  if (!have_program("skopeo") || !have_program("umoci")) SKIP_TEST("skopeo or umoci is not installed");
  const TempDir dir;
  shell(dir.path(), R"(
umoci init --layout img; umoci new --image img:a
for i in 1 2 2; do umoci unpack --image img:a b; echo $i > b/rootfs/f$i; umoci repack --image img:a b; rm -rf b; done
skopeo --insecure-policy copy -q oci:img:a docker-archive:a.tar:local/a:1)");
  const auto from_oci = read_source("oci:img:a", dir.path());
  const auto from_archive = read_source("docker-archive:a.tar:local/a:1", dir.path());
  INFO(message_of(from_oci) << message_of(from_archive));
  REQUIRE((from_oci && from_archive));
  CHECK(brief(from_oci->merged.tree(), {}) == brief(from_archive->merged.tree(), {}));
}
