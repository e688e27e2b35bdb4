// SPDX-License-Identifier: Apache-2.0
// Every length and every byte of small files, damaged: nothing crashes, nothing is taken for something else.
#include <catch2/catch.hpp>

#include "format/dump.h"
#include "format/env.h"
#include "format/erofs.h"
#include "format/location_map.h"
#include "format/pack.h"
#include "format/recipe.h"
#include "format/samples.h"
#include "format/trees.h"
#include "format/view_walk.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

namespace {

// Calls check(bytes) with each proper prefix.
template <typename Check>
void each_truncation(const Bytes& whole, Check check) {
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    INFO("cut to " << length << " bytes");
    check(part);
  }
}

// Calls check(bytes) with one bit of each byte flipped: a different bit from byte to byte, so that all are met.
template <typename Check>
void each_flip(Bytes bytes, Check check) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto bit = static_cast<std::uint8_t>(1u << (i * 5 % 8));
    INFO("bit " << int{bit} << " of byte " << i << " flipped");
    bytes[i] ^= bit;
    check(bytes);
    bytes[i] ^= bit;
  }
}

template <typename Read>
void check_damage_is_refused(const Bytes& good, Read read) {
  REQUIRE(read(good));
  // REQUIRE for each of thousands is slow: one failure is enough to see.
  const auto refuse = [&](const Bytes& bad) {
    if (read(bad)) FAIL("accepted");
  };
  each_truncation(good, refuse);
  each_flip(good, refuse);
  Bytes longer = good;
  longer.push_back(0);
  CHECK_FALSE(read(longer));
}

}  // namespace

TEST_CASE("a damaged layer image is refused") {
  check_damage_is_refused(write_layer(golden_tree("tiny")).value(),
                          [](const Bytes& b) { return read_layer(b).has_value(); });
}

TEST_CASE("a damaged image of a larger layer is refused or the image of another layer") {
  // The checksum covers the first block only: that a name is another one is for the digest to tell.
  const Bytes good = write_layer(golden_tree("zoo")).value();
  int step = 0;
  each_flip(good, [&](const Bytes& bad) {
    if (++step % 97 != 0) return;
    const auto tree = read_layer(bad);
    if (tree && write_layer(*tree).value() != bad) FAIL("not read as it stands");
  });
}

TEST_CASE("the view of a damaged image does no harm") {
  const std::string name = GENERATE("tiny", "zoo");
  const Bytes good = write_layer(golden_tree(name)).value();
  CHECK(walk_view(good) > 0);
  int step = 0;
  // Asan and ubsan are the judges here. Copies of the exact size, so that a read past the end is seen.
  each_flip(good, [&](const Bytes& bad) {
    if (name == "tiny" || ++step % 101 == 0) walk_view(Bytes(bad));
  });
  for (std::size_t blocks = 0; blocks < good.size() / 4096; ++blocks) {
    walk_view(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(blocks * 4096)));
  }
}

TEST_CASE("a damaged recipe is refused or another recipe") {
  // A recipe carries no digest of its own: its name is the digest. So a flip may give another good recipe.
  const Bytes good = write_recipe(sample_recipe());
  each_truncation(good, [](const Bytes& bad) {
    if (read_recipe(bad)) FAIL("accepted");
  });
  each_flip(good, [](const Bytes& bad) {
    const auto recipe = read_recipe(bad);
    if (recipe && write_recipe(*recipe) != bad) FAIL("not read as it stands");
  });
}

TEST_CASE("a damaged pack is refused where its structure is") {
  const Bytes good = sample_pack();
  const std::size_t data_end = read_pack_footer(ByteView(good).last(kPackFooterBytes), good.size())->index_offset;
  each_truncation(good, [](const Bytes& bad) {
    if (read_pack(bad)) FAIL("accepted");
  });
  std::size_t at = 0;
  each_flip(good, [&](const Bytes& bad) {
    // Chunks are checked against their digests when they are read, not here.
    const bool in_chunk = at >= kPackHeaderBytes && at < data_end;
    ++at;
    if (read_pack(bad).has_value() != in_chunk) FAIL("wrong verdict");
  });
}

TEST_CASE("a damaged location map is refused") {
  check_damage_is_refused(write_location_map(sample_map()),
                          [](const Bytes& b) { return LocationMapView::open(b).has_value(); });
}

TEST_CASE("a damaged environment is refused or another environment") {
  const std::string text = write_env(sample_env()).value();
  const Bytes good(text.begin(), text.end());
  each_truncation(good, [](const Bytes& bad) {
    if (read_env(as_text(bad))) FAIL("accepted");
  });
  each_flip(good, [](const Bytes& bad) {
    const auto env = read_env(as_text(bad));
    if (env && write_env(*env).value() != as_text(bad)) FAIL("not read as it stands");
  });
}

TEST_CASE("a damaged dump is refused or another tree") {
  const std::string text = dump_layer(golden_tree("tiny"));
  const Bytes good(text.begin(), text.end());
  const auto look = [](const Bytes& bad) {
    const auto tree = parse_dump(as_text(bad));
    if (tree && !parse_dump(dump_layer(*tree))) FAIL("its dump cannot be read");
  };
  each_truncation(good, look);
  each_flip(good, look);
}
