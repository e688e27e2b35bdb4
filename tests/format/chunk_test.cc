// SPDX-License-Identifier: Apache-2.0
#include "format/chunk.h"

#include <catch2/catch.hpp>
#include <random>

using namespace dsec;
using namespace dsec::format;

namespace {

Bytes random_bytes(std::size_t size) {
  std::mt19937 random(7);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

}  // namespace

TEST_CASE("a chunk that compresses comes back from either effort") {
  const Effort effort = GENERATE(Effort::fast, Effort::high);
  for (const std::size_t size : {64u, 1000u, 65536u, 262144u}) {
    const Bytes plain(size, 'x');
    const Encoded encoded = encode_chunk(plain, effort);
    REQUIRE(encoded.codec == Codec::lz4);
    CHECK(encoded.bytes.size() <= size - size / 16);
    CHECK((decode_chunk(encoded.codec, encoded.bytes, size).value() == plain));
  }
}

TEST_CASE("F-52: a chunk that hardly shrinks, or is tiny, is stored plain") {
  for (const std::size_t size : {64u, 5000u, 262144u}) {
    const Encoded encoded = encode_chunk(random_bytes(size), Effort::fast);
    CHECK(encoded.codec == Codec::plain);
    CHECK(encoded.bytes.empty());
  }
  CHECK(encode_chunk(Bytes(63, 'x'), Effort::fast).codec == Codec::plain);
  CHECK(encode_chunk({}, Effort::high).codec == Codec::plain);
}

TEST_CASE("F-50: a plain chunk is its own bytes and has their length") {
  const Bytes plain = random_bytes(100);
  CHECK((decode_chunk(Codec::plain, plain, 100).value() == plain));
  CHECK(decode_chunk(Codec::plain, {}, 0).value().empty());
  CHECK(decode_chunk(Codec::plain, plain, 99).error().code == ErrorCode::corrupt);
  CHECK(decode_chunk(Codec::plain, plain, 101).error().code == ErrorCode::corrupt);
}

TEST_CASE("F-51: an LZ4 chunk decodes to exactly its length") {
  const Bytes plain(1000, 'x');
  const Bytes stored = encode_chunk(plain, Effort::fast).bytes;
  CHECK(decode_chunk(Codec::lz4, stored, 1000));
  for (const std::size_t wrong : {0u, 1u, 999u, 1001u, 1u << 20}) {
    CHECK(decode_chunk(Codec::lz4, stored, wrong).error().code == ErrorCode::corrupt);
  }
  for (std::size_t cut = 0; cut < stored.size(); ++cut) {
    CHECK_FALSE(decode_chunk(Codec::lz4, ByteView(stored).first(cut), 1000));
  }
  CHECK_FALSE(decode_chunk(Codec::lz4, random_bytes(1000), 1000));
}

TEST_CASE("F-51: other codecs and sizes beyond the limit are corrupt") {
  CHECK(decode_chunk(static_cast<Codec>(2), Bytes(10), 10).error().code == ErrorCode::corrupt);
  CHECK(decode_chunk(Codec::lz4, Bytes(10), kMaxRecipeBytes + 1).error().code == ErrorCode::corrupt);
  CHECK(decode_chunk(Codec::lz4, Bytes(10), ~std::size_t{0}).error().code == ErrorCode::corrupt);
}
