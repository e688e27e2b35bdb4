// SPDX-License-Identifier: Apache-2.0
// Layer images: the checked reader, and the unchecked view on the same bytes.
#include "format/dump.h"
#include "format/erofs.h"
#include "format/internal/crc32c.h"
#include "format/internal/erofs_disk.h"
#include "format/view_walk.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::format;

namespace {

void check(ByteView image) {
  test::walk_view(image);
  const auto tree = read_layer(image);
  if (!tree) {
    fuzz::require(tree.error().code == ErrorCode::corrupt, "a bad image is corrupt");
    return;
  }
  const auto again = write_layer(*tree);
  fuzz::require(again && std::equal(again->begin(), again->end(), image.begin(), image.end()), "an image is canonical");
  const auto from_dump = parse_dump(dump_layer(*tree));
  fuzz::require(from_dump && *write_layer(*from_dump) == *again, "a dump holds all of a tree");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Whole blocks, and with a checksum that fits: the fuzzer cannot guess either.
  Bytes image(data, data + size);
  image.resize(disk::align_up(size, disk::kBlockBytes));
  check(image);
  if (image.empty()) return 0;
  store_le<std::uint32_t>(image.data() + disk::kSuperOffset + 4, 0);
  const ByteView covered = ByteView(image).subspan(disk::kSuperOffset, disk::kBlockBytes - disk::kSuperOffset);
  store_le<std::uint32_t>(image.data() + disk::kSuperOffset + 4, crc32c(~0u, covered));
  check(image);
  return 0;
}
