// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/digest.h"

using namespace dsec;

TEST_CASE("a slice lies inside or is nothing") {
  const Bytes bytes(10);
  CHECK(slice(bytes, 0, 10)->size() == 10);
  CHECK(slice(bytes, 10, 0)->empty());
  CHECK_FALSE(slice(bytes, 11, 0));
  CHECK_FALSE(slice(bytes, 1, 10));
  CHECK_FALSE(slice(bytes, 5, ~0ull));
  CHECK_FALSE(slice(bytes, ~0ull, 5));
}

TEST_CASE("what a writer writes a reader reads") {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(std::uint8_t{1});
  writer.put(std::uint16_t{0x0203});
  writer.put(std::uint32_t{0x04050607});
  writer.put(std::uint64_t{0x08090a0b0c0d0e0f});
  writer.put_bytes(as_bytes("xy"));
  writer.align(4);
  CHECK(writer.size() == 20);
  CHECK(bytes[1] == 3);  // little-endian
  ByteReader reader(bytes);
  CHECK(reader.get<std::uint8_t>() == 1);
  CHECK(reader.get<std::uint16_t>() == 0x0203);
  CHECK(reader.get<std::uint32_t>() == 0x04050607);
  CHECK(reader.get<std::uint64_t>() == 0x08090a0b0c0d0e0f);
  CHECK(as_text(reader.get_bytes(2)) == "xy");
  CHECK(reader.remaining() == 3);
  CHECK(reader.ok());
}

TEST_CASE("a read past the end is zero and stays an error") {
  const Bytes bytes(3, 0xff);
  ByteReader reader(bytes);
  CHECK(reader.get<std::uint32_t>() == 0);
  CHECK_FALSE(reader.ok());
  CHECK(reader.get<std::uint8_t>() == 0);
  CHECK(reader.get_bytes(~std::size_t{0}).empty());
  CHECK_FALSE(reader.ok());
}

TEST_CASE("SHA-256 gives the values of FIPS 180-4") {
  const auto hex = [](std::string_view text) { return sha256(as_bytes(text)).hex(); };
  CHECK(hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a stream hashes like one buffer, however it is cut") {
  const Bytes bytes(1000, 'a');
  for (const std::size_t part : {1u, 63u, 64u, 65u, 1000u}) {
    Sha256 hash;
    for (std::size_t at = 0; at < bytes.size(); at += part) {
      hash.update(ByteView(bytes).subspan(at, std::min(part, bytes.size() - at)));
    }
    CHECK(hash.finish() == sha256(bytes));
  }
}

TEST_CASE("a digest is exactly 64 lower-case hex digits") {
  const Digest digest = sha256({});
  CHECK(Digest::parse(digest.hex()).value() == digest);
  CHECK(digest.brief() == "e3b0c44298fc");
  CHECK(Digest::from_bytes(digest.view()) == digest);
  CHECK(Digest{}.is_zero());
  CHECK_FALSE(digest.is_zero());
  for (const std::string& bad : {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'A'),
                                 std::string(63, 'a') + "g", std::string(63, 'a') + "\0"}) {
    CHECK(Digest::parse(bad).error().code == ErrorCode::invalid);
  }
}

TEST_CASE("digests sort like their hex form") {
  const Digest a = sha256(as_bytes("a"));
  const Digest b = sha256(as_bytes("b"));
  CHECK((a < b) == (a.hex() < b.hex()));
}

TEST_CASE("checksums are the same everywhere and forever: they are stored") {
  CHECK(checksum64({}) == 0x2d06800538d394c2u);
  CHECK(checksum64(as_bytes("abc")) == 0x78af5f94892f3950u);
}
