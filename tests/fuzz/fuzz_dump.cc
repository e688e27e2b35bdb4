// SPDX-License-Identifier: Apache-2.0
// Dumps: any tree that a dump makes is dumped alike, and its image, if it can have one, is read back as the same tree.
#include "format/dump.h"
#include "format/erofs.h"
#include "format/view_walk.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::format;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tree = parse_dump(as_text({data, size}));
  if (!tree) {
    fuzz::require(tree.error().code == ErrorCode::invalid, "a bad dump is invalid");
    return 0;
  }
  const std::string text = dump_layer(*tree);
  const auto again = parse_dump(text);
  fuzz::require(again && dump_layer(*again) == text, "a dump is written as it was read");
  const auto image = write_layer(*tree);
  if (!image) {
    fuzz::require(image.error().code == ErrorCode::invalid, "a tree without an image is invalid");
    return 0;
  }
  const auto from_image = read_layer(*image);
  fuzz::require(from_image && dump_layer(*from_image) == text, "an image holds all of a tree");
  test::walk_view(*image);
  return 0;
}
