// SPDX-License-Identifier: Apache-2.0
#include "format/pack.h"

#include <catch2/catch.hpp>

#include "format/samples.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

namespace {

constexpr std::uint64_t kDataEnd = 316;

PackEntry good_entry() { return {digest_of("m"), kPackHeaderBytes, 100, 200, Codec::lz4}; }

// A pack with 300 bytes of data and these entries as they are, in this order, under a digest that fits.
bool is_read(const std::vector<PackEntry>& entries) {
  Bytes pack = pack_header();
  pack.resize(kDataEnd);
  Bytes index;
  for (const PackEntry& entry : entries) {
    // The trailer of one entry, so that the writer cannot sort.
    const Bytes trailer = pack_trailer({entry}, kDataEnd);
    index.insert(index.end(), trailer.begin(), trailer.begin() + kPackEntryBytes);
  }
  const PackFooter footer{kDataEnd, static_cast<std::uint32_t>(entries.size()), sha256(index)};
  const auto read = read_pack_index(footer, index);
  if (!read) CHECK(read.error().code == ErrorCode::corrupt);
  return read.has_value();
}

template <typename Change>
bool is_read_with(Change change) {
  PackEntry entry = good_entry();
  change(entry);
  return is_read({entry});
}

bool footer_is_read(std::size_t offset, std::uint8_t value) {
  Bytes pack = sample_pack();
  pack[pack.size() - kPackFooterBytes + offset] = value;
  return read_pack(pack).has_value();
}

}  // namespace

TEST_CASE("the entries of a pack come back sorted, and their chunks decode") {
  const Bytes pack = sample_pack();
  const auto entries = read_pack(pack);
  REQUIRE(entries);
  REQUIRE(entries->size() == 3);
  for (const PackEntry& entry : *entries) {
    const auto stored = slice(pack, entry.offset, entry.stored_bytes);
    CHECK(sha256(decode_chunk(entry.codec, *stored, entry.plain_bytes).value()) == entry.digest);
  }
  CHECK((*entries)[0].digest < (*entries)[1].digest);
  CHECK((*entries)[1].digest < (*entries)[2].digest);
}

TEST_CASE("an empty pack is a pack") {
  Bytes pack = pack_header();
  const Bytes trailer = pack_trailer({}, pack.size());
  pack.insert(pack.end(), trailer.begin(), trailer.end());
  CHECK(read_pack(pack).value().empty());
}

TEST_CASE("F-53: another header is refused") {
  for (std::size_t i = 0; i < kPackHeaderBytes; ++i) {
    Bytes pack = sample_pack();
    pack[i] ^= 1;
    INFO("byte " << i);
    CHECK_FALSE(read_pack(pack));
  }
}

TEST_CASE("F-54: a footer that does not fit is refused") {
  CHECK_FALSE(footer_is_read(0, 0));      // magic
  CHECK_FALSE(footer_is_read(15, 0x80));  // index offset
  CHECK_FALSE(footer_is_read(16, 2));     // count
  CHECK_FALSE(footer_is_read(19, 0xff));  // a very large count
  CHECK_FALSE(footer_is_read(20, 1));     // reserved
  CHECK_FALSE(footer_is_read(31, 1));
  CHECK_FALSE(read_pack(Bytes(79)));
  CHECK_FALSE(read_pack_footer(Bytes(63), 1000));
  Bytes footer = pack_trailer({}, kPackHeaderBytes - 1);
  CHECK_FALSE(read_pack_footer(footer, kPackHeaderBytes - 1 + kPackFooterBytes));
}

TEST_CASE("F-55: entries are sorted by digest, each once") {
  PackEntry small = good_entry();
  PackEntry large = good_entry();
  if (large.digest < digest_of("n"))
    large.digest = digest_of("n");
  else
    small.digest = digest_of("n");
  CHECK(is_read({small, large}));
  CHECK_FALSE(is_read({large, small}));
  CHECK_FALSE(is_read({small, small}));
}

TEST_CASE("F-56: a chunk lies inside the data area and has possible sizes") {
  CHECK(is_read({good_entry()}));
  CHECK(is_read_with([](PackEntry& e) { e.offset = kDataEnd - 100; }));
  CHECK_FALSE(is_read_with([](PackEntry& e) { e.offset = kDataEnd - 99; }));
  CHECK_FALSE(is_read_with([](PackEntry& e) { e.offset = kPackHeaderBytes - 1; }));
  CHECK_FALSE(is_read_with([](PackEntry& e) { e.offset = ~0ull; }));
  CHECK_FALSE(is_read_with([](PackEntry& e) { e.stored_bytes = ~0u; }));
  CHECK_FALSE(is_read_with([](PackEntry& e) { e.codec = static_cast<Codec>(2); }));
  CHECK(is_read_with([](PackEntry& e) { e.plain_bytes = kMaxRecipeBytes; }));
  CHECK_FALSE(is_read_with([](PackEntry& e) { e.plain_bytes = kMaxRecipeBytes + 1; }));
  CHECK_FALSE(is_read_with([](PackEntry& e) { e.plain_bytes = 100; }));  // LZ4 that saves nothing
  CHECK_FALSE(is_read_with([](PackEntry& e) { e.codec = Codec::plain; }));
  CHECK_FALSE(is_read_with([](PackEntry& e) { e = {e.digest, e.offset, 0, 0, Codec::plain}; }));
}

TEST_CASE("F-57: an index that its digest does not fit is refused") {
  CHECK_FALSE(footer_is_read(63, 0));
  const PackFooter footer{kDataEnd, 1, Digest{}};
  CHECK_FALSE(read_pack_index(footer, Bytes(kPackEntryBytes)));
  CHECK_FALSE(read_pack_index(footer, Bytes(kPackEntryBytes - 1)));
}
