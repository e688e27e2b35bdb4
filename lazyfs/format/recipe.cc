// SPDX-License-Identifier: Apache-2.0
#include "format/recipe.h"

#include <algorithm>

namespace dsec::format {

namespace {

constexpr std::size_t kHeaderBytes = 24;  // magic, size of the content, number of parts, reserved
constexpr std::size_t kPartBytes = Digest::kSize + 4;
constexpr std::uint64_t kMaxHolePart = 0x80000000;  // 2 GiB, a multiple of kHoleAlign

}  // namespace

std::size_t Recipe::part_at(std::uint64_t offset) const {
  const auto after = std::upper_bound(parts.begin(), parts.end(), offset,
                                      [](std::uint64_t at, const RecipePart& part) { return at < part.offset; });
  return static_cast<std::size_t>(after - parts.begin()) - 1;
}

bool looks_like_recipe(ByteView bytes) {
  return bytes.size() >= kRecipeMagic.size() && std::equal(kRecipeMagic.begin(), kRecipeMagic.end(), bytes.begin());
}

void add_chunk(Recipe& recipe, const Digest& chunk, std::size_t bytes) {
  recipe.parts.push_back({chunk, recipe.size, static_cast<std::uint32_t>(bytes)});
  recipe.size += bytes;
}

void add_hole(Recipe& recipe, std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t part = std::min(bytes, kMaxHolePart);
    add_chunk(recipe, Digest{}, part);
    bytes -= part;
  }
}

Bytes write_recipe(const Recipe& recipe) {
  Bytes bytes;
  bytes.reserve(kHeaderBytes + recipe.parts.size() * kPartBytes);
  ByteWriter writer(bytes);
  writer.put_bytes(kRecipeMagic);
  writer.put(recipe.size);
  writer.put(static_cast<std::uint32_t>(recipe.parts.size()));
  writer.put(std::uint32_t{0});
  for (const RecipePart& part : recipe.parts) {
    writer.put_bytes(part.chunk.view());
    writer.put(part.bytes);
  }
  return bytes;
}

Result<Recipe> read_recipe(ByteView bytes) {
  if (!looks_like_recipe(bytes)) return fail(ErrorCode::corrupt, "recipe: wrong magic");
  ByteReader reader(bytes.subspan(kRecipeMagic.size()));
  const auto size = reader.get<std::uint64_t>();
  const auto count = reader.get<std::uint32_t>();
  const auto reserved = reader.get<std::uint32_t>();
  if (!reader.ok() || reserved != 0 || count == 0 || reader.remaining() != std::uint64_t{count} * kPartBytes) {
    return fail(ErrorCode::corrupt, "recipe: {} bytes do not hold {} parts", bytes.size(), count);
  }
  Recipe recipe;
  recipe.parts.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Digest chunk = Digest::from_bytes(reader.get_bytes(Digest::kSize));
    const auto part_bytes = reader.get<std::uint32_t>();
    const std::uint64_t most = chunk.is_zero() ? kMaxHolePart : kChunkMaxBytes;
    if (part_bytes == 0 || part_bytes > most) {
      return fail(ErrorCode::corrupt, "recipe: part {} has {} bytes", i, part_bytes);
    }
    add_chunk(recipe, chunk, part_bytes);
  }
  if (recipe.size != size) return fail(ErrorCode::corrupt, "recipe: parts make {} bytes, not {}", recipe.size, size);
  return recipe;
}

}  // namespace dsec::format
