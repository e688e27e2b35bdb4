// SPDX-License-Identifier: Apache-2.0
// Every archive of tests/support/hostile_tars.py: what must be refused is, and nothing crashes or takes long.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "composer/sources/internal/archive_layer.h"
#include "composer/sources_support.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;

namespace {

const std::filesystem::path& hostile() {
  static const TempDir dir;
  static const std::string made = shell(dir.path(), "python3 " DSEC_TEST_DIR "/../support/hostile_tars.py cases");
  return dir.path();
}

// Reads a tar as an image's layer, where whiteout names have a meaning, but without a digest to vouch for it.
Result<void> read_as_layer(const std::filesystem::path& path) {
  const OpenFile file = TRY(open_regular(path));
  std::array<std::uint8_t, kMagicBytes> magic{};
  TRY(FileStream(file.fd, 0, std::min<std::uint64_t>(file.size, magic.size())).read(magic));
  LayerArchive archive;
  archive.bytes = std::make_unique<FileStream>(file.fd, 0, file.size);
  archive.compression = detect_compression(magic);
  archive.names = Names::oci;
  format::LayerTree layer;
  LayerBuilder builder = TRY(LayerBuilder::create(layer, nullptr));
  MemorySink sink;
  TRY(apply_archive(std::move(archive), builder, sink, {}));
  return builder.resolve(TRY(sink.finish()));
}

Result<void> read_image(const std::string& spec) {
  TRY(read_source(spec, hostile() / "cases"));
  return {};
}

}  // namespace

TEST_CASE("hostile archives and images are refused or contained") {
  const auto cases = parse_json(read_text(hostile() / "cases/cases.json"), "cases.json");
  REQUIRE(cases);
  CHECK(cases->size() > 100);
  for (const Json& one : *cases) {
    const std::string format = one["format"];
    const std::string file = one["file"];
    const Result<void> read =
        format == "tar" ? read_as_layer(hostile() / "cases" / file) : read_image(format + ":" + file);
    INFO(file << " (" << one["why"].get<std::string>() << "): " << message_of(read));
    if (one["expect"] == "reject") {
      CHECK_FALSE(read);
    } else {
      CHECK((read || !read.error().message.empty()));
    }
    if (!read) CHECK(read.error().code != ErrorCode::internal);
    if (!read) CHECK(read.error().code != ErrorCode::not_found);
  }
}

TEST_CASE("hostile names become what their description says") {
  const auto tree = [&](const std::string& name) {
    const auto read = read_source("tar:cases/tar/" + name + ".tar", hostile());
    return read ? outline(read->layers[0]) : read.error().message;
  };
  CHECK(tree("absolute") == "/before regular\n/etc directory\n/etc/passwd regular\n");
  CHECK(tree("absolute_slashes") == "/before regular\n/etc directory\n/etc/passwd regular\n");
  CHECK(tree("symlink_overwrite") == "/a regular\n/before regular\n");
  CHECK(tree("hardlink_replaced") == "/before regular\n/f regular\n/h regular\n");
  CHECK(tree("duplicates") == "/before regular\n/f regular\n");
  CHECK(tree("duplicate_dir") == "/before regular\n/d directory\n/d/x regular\n");
  CHECK(tree("whiteout_device") == "/before regular\n/f char_device device=0:0\n");
}
