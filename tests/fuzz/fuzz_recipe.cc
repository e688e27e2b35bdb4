// SPDX-License-Identifier: Apache-2.0
#include "format/recipe.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::format;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(data, size);
  const auto recipe = read_recipe(bytes);
  if (!recipe) {
    fuzz::require(recipe.error().code == ErrorCode::corrupt, "a bad recipe is corrupt");
    return 0;
  }
  const Bytes again = write_recipe(*recipe);
  fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                "a recipe is written as it was read");
  for (std::size_t i = 0; i < recipe->parts.size(); ++i) {
    const RecipePart& part = recipe->parts[i];
    fuzz::require(recipe->part_at(part.offset) == i, "the first byte of a part is in it");
    fuzz::require(recipe->part_at(part.offset + part.bytes - 1) == i, "the last byte of a part is in it");
  }
  return 0;
}
