// SPDX-License-Identifier: Apache-2.0
// The recipe of an object: which chunks and holes make its content. docs/format.md, section "Recipe".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "format/chunk.h"

namespace dsec::format {

// The first bytes of every recipe. Content that begins like this is never stored as a bare chunk (F-44), so the bytes
// named by an object digest tell by themselves whether they are the content or its recipe.
inline constexpr std::array<std::uint8_t, 8> kRecipeMagic{0x89, 'D', 'S', 'R', 'C', 'P', '1', '\n'};

struct RecipePart {
  Digest chunk;              // zero for a hole
  std::uint64_t offset = 0;  // in the content
  std::uint32_t bytes = 0;
  [[nodiscard]] bool is_hole() const { return chunk.is_zero(); }
};

struct Recipe {
  std::uint64_t size = 0;  // of the content: the parts lie back to back from 0 to here
  std::vector<RecipePart> parts;

  // Index of the part that holds byte `offset`, which must be below `size`.
  [[nodiscard]] std::size_t part_at(std::uint64_t offset) const;
};

bool looks_like_recipe(ByteView bytes);

// Appends a part. Holes may be longer than one part can say: they are split.
void add_chunk(Recipe& recipe, const Digest& chunk, std::size_t bytes);
void add_hole(Recipe& recipe, std::uint64_t bytes);

Bytes write_recipe(const Recipe& recipe);
// `corrupt` names the broken rule: wrong sizes, a hole or chunk of length 0 or beyond its maximum, a chunk larger than
// kChunkMaxBytes, trailing bytes.
Result<Recipe> read_recipe(ByteView bytes);

}  // namespace dsec::format
