// SPDX-License-Identifier: Apache-2.0
#include "format/location_map.h"

#include <catch2/catch.hpp>

#include "format/samples.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

namespace {

constexpr std::size_t kHeader = 24;
constexpr std::size_t kPacks = 2 * Digest::kSize;

// The sample map with a change and a digest that fits.
template <typename Change>
bool is_read_with(Change change) {
  Bytes bytes = write_location_map(sample_map());
  bytes.resize(bytes.size() - Digest::kSize);
  change(bytes);
  const Digest digest = sha256(bytes);
  bytes.insert(bytes.end(), digest.bytes.begin(), digest.bytes.end());
  const auto view = LocationMapView::open(bytes);
  if (!view) CHECK(view.error().code == ErrorCode::corrupt);
  return view.has_value();
}

// The first entry's fields: offset at 32, stored bytes at 40, plain bytes at 44, pack and codec at 48.
std::uint8_t* first_entry(Bytes& bytes) { return bytes.data() + kHeader + kPacks; }

}  // namespace

TEST_CASE("every entry of a map is found, and nothing else") {
  const std::vector<MapEntry> entries = sample_map();
  const Bytes bytes = write_location_map(entries);
  const auto view = LocationMapView::open(bytes);
  REQUIRE(view);
  CHECK(view->size() == 3);
  CHECK(view->pack_count() == 2);
  for (const MapEntry& entry : entries) CHECK(view->find(entry.digest).value() == entry.location);
  CHECK(view->find(digest_of("absent")).error().code == ErrorCode::not_found);
  CHECK(view->find(Digest{}).error().code == ErrorCode::not_found);
}

TEST_CASE("a large map finds each of its entries") {
  std::vector<MapEntry> entries;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const Digest pack = digest_of(fmt::format("pack {}", i % 37));
    entries.push_back({digest_of(fmt::format("chunk {}", i)), {pack, 16 + i, i + 1, i + 1, Codec::plain}});
  }
  const Bytes bytes = write_location_map(entries);
  const auto view = LocationMapView::open(bytes);
  REQUIRE(view);
  for (const MapEntry& entry : entries) REQUIRE(view->find(entry.digest).value() == entry.location);
}

TEST_CASE("an empty map is a map") {
  const Bytes bytes = write_location_map({});
  CHECK(LocationMapView::open(bytes)->size() == 0);
}

TEST_CASE("the order of the entries and doubles do not change a map") {
  std::vector<MapEntry> entries = sample_map();
  entries.push_back(entries[0]);
  std::reverse(entries.begin(), entries.end());
  CHECK(write_location_map(entries) == write_location_map(sample_map()));
}

TEST_CASE("F-60: another header is refused") {
  CHECK(is_read_with([](Bytes&) {}));
  CHECK_FALSE(is_read_with([](Bytes& b) { b[0] ^= 1; }));
  CHECK_FALSE(is_read_with([](Bytes& b) { b[8] = 2; }));      // entries
  CHECK_FALSE(is_read_with([](Bytes& b) { b[11] = 0xff; }));  // very many
  CHECK_FALSE(is_read_with([](Bytes& b) { b[12] = 1; }));     // packs
  CHECK_FALSE(is_read_with([](Bytes& b) { b[15] = 0xff; }));
  CHECK_FALSE(is_read_with([](Bytes& b) { b[16] = 1; }));  // reserved
  CHECK_FALSE(is_read_with([](Bytes& b) { b.push_back(0); }));
  CHECK_FALSE(is_read_with([](Bytes& b) { b.pop_back(); }));
  CHECK_FALSE(LocationMapView::open({}));
}

TEST_CASE("F-61: a map whose digest does not fit is refused") {
  Bytes bytes = write_location_map(sample_map());
  bytes.back() ^= 1;
  CHECK_FALSE(LocationMapView::open(bytes));
}

TEST_CASE("F-62: entries are sorted by digest, each once") {
  CHECK_FALSE(is_read_with([](Bytes& b) { first_entry(b)[0] = 0xff; }));
  CHECK_FALSE(is_read_with([](Bytes& b) { std::copy_n(first_entry(b) + 52, Digest::kSize, first_entry(b)); }));
}

TEST_CASE("F-63: packs are sorted, each once, and every entry names one") {
  CHECK_FALSE(is_read_with([](Bytes& b) { b[kHeader] = 0xff; }));
  CHECK_FALSE(is_read_with([](Bytes& b) { std::copy_n(b.data() + kHeader, Digest::kSize, b.data() + kHeader + 32); }));
  CHECK_FALSE(is_read_with([](Bytes& b) { first_entry(b)[48] = 2; }));
}

TEST_CASE("F-64: offsets and sizes are possible") {
  CHECK_FALSE(is_read_with([](Bytes& b) { first_entry(b)[39] = 0x80; }));                             // offset
  CHECK_FALSE(is_read_with([](Bytes& b) { store_le<std::uint32_t>(first_entry(b) + 40, ~0u); }));     // stored
  CHECK_FALSE(is_read_with([](Bytes& b) { store_le<std::uint32_t>(first_entry(b) + 44, ~0u); }));     // plain
  CHECK_FALSE(is_read_with([](Bytes& b) { first_entry(b)[51] ^= 0x80; }));                            // codec
  CHECK_FALSE(is_read_with([](Bytes& b) { std::fill_n(first_entry(b) + 40, 8, std::uint8_t{0}); }));  // nothing
}
