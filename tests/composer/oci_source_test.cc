// SPDX-License-Identifier: Apache-2.0
// oci: sources, on layouts by umoci, skopeo and our own script (oci_layouts.py).
#include <catch2/catch.hpp>

#include "composer/sources/internal/oci_layout.h"
#include "composer/sources_support.h"
#include "support/skip.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;
using Catch::Contains;

namespace {

// All layouts of oci_layouts.py, made once.
const std::filesystem::path& layouts() {
  static const TempDir dir;
  static const std::string made = shell(dir.path(), "python3 " DSEC_TEST_DIR "/oci_layouts.py .");
  return dir.path();
}

std::string tree(const std::string& spec) {
  const auto read = read_source("oci:" + spec, layouts());
  if (!read) return read.error().message;
  return outline(read->merged.tree());
}

constexpr const char* kGood = "/0:0 char_device device=0:0\n/d directory\n/d/new regular\n";

}  // namespace

TEST_CASE("an image's layers are read with their whiteouts, in every compression and media type") {
  for (const char* name : {"gzip", "plain", "zstd", "docker", "foreign", "untyped"}) {
    INFO(name);
    CHECK(tree(name) == kGood);
  }
}

TEST_CASE("whiteouts become whiteouts and opaque directories of the layer") {
  const auto read = read_source("oci:gzip", layouts());
  REQUIRE(read);
  REQUIRE(read->layers.size() == 2);
  CHECK(outline(read->layers[1]) ==
        "/0:0 char_device device=0:0\n/d directory opaque\n/d/new regular\n/gone whiteout\n");
}

TEST_CASE("the configuration is read") {
  const auto source = open_source("oci:gzip", layouts());
  REQUIRE(source);
  const ImageConfig* config = (*source)->config();
  REQUIRE(config != nullptr);
  CHECK(config->entrypoint == std::vector<std::string>{"/entry", "x y"});
  CHECK(config->cmd == std::vector<std::string>{"arg"});
  CHECK(config->env == std::vector<std::pair<std::string, std::string>>{{"PATH", "/bin"}, {"A", "b=c"}});
  CHECK(config->workdir == "/work");
  CHECK(config->user == "7:8");
  CHECK(config->stop_signal == "SIGINT");
  CHECK(config->labels == std::map<std::string, std::string>{{"k", "v"}});
  CHECK(config->exposed_ports == std::vector<std::string>{"80/tcp"});
  CHECK(config->volumes == std::vector<std::string>{"/data"});
  const auto layer = (*source)->layer(0);
  REQUIRE(layer);
  CHECK((*layer)->identity().diff_id);
  CHECK((*layer)->identity().blob);
  CHECK((*layer)->size_bytes() > 0);
}

TEST_CASE("an image is chosen by name, by being the only one, or as latest") {
  CHECK(tree("two_names:one") == kGood);
  CHECK(tree("two_names:docker.io/library/two:1") == kGood);
  CHECK_THAT(tree("two_names"), Contains("one") && Contains("two:1") && Contains(":NAME"));
  CHECK_THAT(tree("two_names:three"), Contains("no image is named \"three\"") && Contains("one"));
  CHECK(tree("latest") == kGood);
}

TEST_CASE("a nested index gives the image for this machine") {
  CHECK(tree("nested") == kGood);
  CHECK_THAT(tree("other_platforms"), Contains("linux/" + machine_architecture()) && Contains("plan9/mips"));
  CHECK_THAT(tree("too_deep"), Contains("nested deeper"));
}

TEST_CASE("a layout of an unknown version, or none, is refused") {
  CHECK_THAT(tree("version_2"), Contains("2.0.0"));
  CHECK_THAT(tree("no_layout"), Contains("oci-layout"));
  CHECK(open_source("oci:none", layouts()).error().code == ErrorCode::not_found);
}

TEST_CASE("documents and blobs that are not what their digest says are refused") {
  CHECK_THAT(tree("bad_manifest"), Contains("other bytes"));
  CHECK_THAT(tree("bad_config"), Contains("other bytes"));
  CHECK_THAT(tree("bad_blob"), Contains("the blob should be sha256:") && Contains("layer 1 of 2"));
  CHECK_THAT(tree("bad_size"), Contains("bytes instead of"));
  CHECK_THAT(tree("missing_blob"), Contains("missing"));
  CHECK_THAT(tree("bad_diff_id"), Contains("diff_id"));
  CHECK_THAT(tree("bad_diff_id_plain"), Contains("diff_id"));
  CHECK(read_source("oci:bad_blob", layouts()).error().code == ErrorCode::corrupt);
}

TEST_CASE("what is no image that we can read says why") {
  CHECK_THAT(tree("encrypted"), Contains("+encrypted") && Contains("decrypt"));
  CHECK_THAT(tree("odd_layer_type"), Contains("application/x-odd"));
  CHECK_THAT(tree("artifact"), Contains("no container image"));
  CHECK_THAT(tree("sha512"), Contains("sha256"));
  CHECK_THAT(tree("traversal"), Contains("no digest"));
  CHECK_THAT(tree("diff_id_count"), Contains("2 layers, the configuration 1"));
  CHECK_THAT(tree("too_many_layers"), Contains("at most 1024"));
  CHECK_THAT(tree("huge_manifest"), Contains("bytes instead of"));
  CHECK_THAT(tree("no_config"), Contains("config"));
  CHECK_THAT(tree("not_gzip"), Contains("gzip"));
}

TEST_CASE("umoci's images come out as umoci unpacks them") {
  if (!have_program("umoci")) SKIP_TEST("umoci is not installed");
  const TempDir dir;
  shell(dir.path(), R"(
umoci -q init 2>/dev/null --layout img || umoci init --layout img
umoci new --image img:a
umoci unpack --image img:a b
mkdir -p b/rootfs/d/sub b/rootfs/usr/lib; echo 1 > b/rootfs/d/one; echo 2 > b/rootfs/d/sub/two; echo 3 > b/rootfs/three
ln -s usr/lib b/rootfs/lib; ln b/rootfs/three b/rootfs/d/link; mkfifo b/rootfs/p; chmod 4711 b/rootfs/three
umoci repack --image img:a b
rm -rf b; umoci unpack --image img:a b
rm b/rootfs/three; rm -r b/rootfs/d/sub; mkdir b/rootfs/d/sub; echo 4 > b/rootfs/d/sub/four; echo 5 > b/rootfs/usr/lib/x.so
umoci repack --image img:a b
rm -rf b; umoci unpack --image img:a b)");
  const auto image = read_source("oci:img:a", dir.path());
  INFO(message_of(image));
  REQUIRE(image);
  const auto unpacked = read_source("dir:b/rootfs", dir.path());
  REQUIRE(unpacked);
  CHECK(image->layers.size() == 2);
  CHECK(brief(image->merged.tree(), {}) == brief(unpacked->layers[0], {}));
}
