// SPDX-License-Identifier: Apache-2.0
#include "format/recipe.h"

#include <catch2/catch.hpp>

#include "format/samples.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

namespace {

Recipe of_chunks(std::initializer_list<std::size_t> sizes) {
  Recipe recipe;
  for (const std::size_t size : sizes) add_chunk(recipe, digest_of("x"), size);
  return recipe;
}

bool is_read(const Bytes& bytes) { return read_recipe(bytes).has_value(); }

Bytes edited(std::size_t offset, std::uint8_t value) {
  Bytes bytes = write_recipe(of_chunks({10, 20}));
  REQUIRE(is_read(bytes));
  bytes[offset] = value;
  return bytes;
}

}  // namespace

TEST_CASE("a recipe comes back as it was") {
  const Recipe recipe = sample_recipe();
  const auto again = read_recipe(write_recipe(recipe));
  REQUIRE(again);
  CHECK(again->size == recipe.size);
  REQUIRE(again->parts.size() == recipe.parts.size());
  for (std::size_t i = 0; i < recipe.parts.size(); ++i) {
    CHECK(again->parts[i].chunk == recipe.parts[i].chunk);
    CHECK(again->parts[i].offset == recipe.parts[i].offset);
    CHECK(again->parts[i].bytes == recipe.parts[i].bytes);
  }
}

TEST_CASE("the part of every offset is found") {
  const Recipe recipe = sample_recipe();
  for (std::size_t i = 0; i < recipe.parts.size(); ++i) {
    CHECK(recipe.part_at(recipe.parts[i].offset) == i);
    CHECK(recipe.part_at(recipe.parts[i].offset + recipe.parts[i].bytes - 1) == i);
  }
}

TEST_CASE("F-44: content that begins like a recipe is told") {
  CHECK(looks_like_recipe(write_recipe(sample_recipe())));
  CHECK(looks_like_recipe(kRecipeMagic));
  CHECK_FALSE(looks_like_recipe(ByteView(kRecipeMagic).first(7)));
  CHECK_FALSE(looks_like_recipe({}));
}

TEST_CASE("F-45: another header is refused") {
  CHECK_FALSE(is_read(edited(0, 0x88)));
  CHECK_FALSE(is_read(edited(6, '2')));    // of another version
  CHECK_FALSE(is_read(edited(16, 1)));     // fewer parts
  CHECK_FALSE(is_read(edited(16, 3)));     // more parts
  CHECK_FALSE(is_read(edited(19, 0xff)));  // very many parts
  CHECK_FALSE(is_read(edited(20, 1)));     // reserved
  CHECK_FALSE(is_read(write_recipe(Recipe{})));
  CHECK_FALSE(is_read({}));
}

TEST_CASE("F-46: a part has 1 byte to 256 KiB, a hole up to 2 GiB") {
  CHECK(is_read(write_recipe(of_chunks({1, kChunkMaxBytes}))));
  CHECK_FALSE(is_read(write_recipe(of_chunks({1, kChunkMaxBytes + 1}))));
  CHECK_FALSE(is_read(write_recipe(of_chunks({1, 0}))));
  Recipe hole;
  add_chunk(hole, Digest{}, std::size_t{2} << 30);
  CHECK(is_read(write_recipe(hole)));
  add_chunk(hole, Digest{}, (std::size_t{2} << 30) + 1);
  CHECK_FALSE(is_read(write_recipe(hole)));
}

TEST_CASE("F-47: the parts make the size") {
  CHECK_FALSE(is_read(edited(8, 29)));
  CHECK_FALSE(is_read(edited(8, 31)));
  CHECK_FALSE(is_read(edited(15, 0x80)));
}

TEST_CASE("F-48: a long hole is split into parts of 2 GiB and a rest") {
  Recipe recipe;
  add_hole(recipe, (std::uint64_t{4} << 30) + 4096);
  REQUIRE(recipe.parts.size() == 3);
  CHECK(recipe.parts[0].bytes == std::uint32_t{1} << 31);
  CHECK(recipe.parts[1].bytes == std::uint32_t{1} << 31);
  CHECK(recipe.parts[2].bytes == 4096);
  CHECK(recipe.parts[2].is_hole());
}
