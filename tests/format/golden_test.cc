// SPDX-License-Identifier: Apache-2.0
// The bytes of fixed inputs. A change here is a change of the format: identities of everything stored change with it.
#include <catch2/catch.hpp>

#include "base/text.h"
#include "format/dump.h"
#include "format/erofs.h"
#include "format/samples.h"
#include "format/trees.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

TEST_CASE("golden: digests of layer images") {
  std::string text;
  for (const char* name : {"empty", "tiny", "zoo"}) {
    text += fmt::format("{} {}\n", sha256(write_layer(golden_tree(name)).value()).hex(), name);
  }
  for (const std::uint64_t seed : {1, 2, 3}) {
    text += fmt::format("{} random {}\n", sha256(write_layer(random_tree(seed, 500)).value()).hex(), seed);
  }
  check_golden("layers.sha256", text);
}

TEST_CASE("golden: the bytes of a tiny layer image") {
  check_golden("tiny.erofs.hex", hex_lines(write_layer(golden_tree("tiny")).value()));
}

TEST_CASE("golden: a dump is written as it is read") {
  for (const char* name : {"empty", "tiny", "zoo"}) {
    const std::string text = read_text(golden_path(std::string(name) + ".dump"));
    const std::size_t comment_end = text.find('\n') + 1;
    check_golden(std::string(name) + ".dump", text.substr(0, comment_end) + dump_layer(golden_tree(name)));
  }
}

TEST_CASE("golden: a recipe") { check_golden("recipe.hex", hex_lines(write_recipe(sample_recipe()))); }

TEST_CASE("golden: a pack's header and trailer") {
  // Not its chunks: what LZ4 makes of them may change with its version.
  std::vector<PackEntry> entries{{digest_of("a"), 16, 1, 1, Codec::plain}, {digest_of("b"), 17, 100, 200, Codec::lz4}};
  check_golden("pack.hex", hex_lines(pack_header()) + hex_lines(pack_trailer(entries, 117)));
}

TEST_CASE("golden: a location map") { check_golden("map.hex", hex_lines(write_location_map(sample_map()))); }

TEST_CASE("golden: a trace") { check_golden("trace.hex", hex_lines(write_trace(sample_trace()))); }

TEST_CASE("golden: an environment") { check_golden("env.json", write_env(sample_env()).value()); }

namespace {

// The bytes of the lines "OFFSET: HEX HEX ...  | comment" of a document, at their offsets.
Bytes bytes_of_hex_block(const std::string& document, std::size_t size) {
  Bytes bytes(size);
  for (const std::string_view line : split(document, '\n')) {
    const std::size_t colon = line.find(": ");
    if (colon != 6 || !starts_with(line, "0x")) continue;
    std::size_t at = std::stoul(std::string(line.substr(2, 4)), nullptr, 16);
    const std::string_view hex = line.substr(colon + 2, line.find("  |") - colon - 2);
    for (const std::string_view byte : split(hex, ' ')) {
      if (!byte.empty()) bytes.at(at++) = static_cast<std::uint8_t>(std::stoul(std::string(byte), nullptr, 16));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("golden: the image in docs/format.md is the tiny one") {
  const Bytes image = write_layer(golden_tree("tiny")).value();
  const std::string document = read_text(std::filesystem::path(DSEC_DOCS_DIR) / "format.md");
  CHECK(hex_lines(bytes_of_hex_block(document, image.size())) == hex_lines(image));
}
