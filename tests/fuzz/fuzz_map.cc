// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "format/location_map.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::format;

namespace {

void check(ByteView bytes) {
  const auto view = LocationMapView::open(bytes);
  if (!view) {
    fuzz::require(view.error().code == ErrorCode::corrupt, "a bad map is corrupt");
    return;
  }
  std::vector<MapEntry> entries;
  for (std::size_t i = 0; i < view->size(); ++i) {
    entries.push_back(view->entry(i));
    fuzz::require(view->find(entries.back().digest).value() == entries.back().location, "every entry is found");
  }
  // Packs that no entry names are the one freedom that a reader leaves (F-65).
  const Bytes again = write_location_map(entries);
  fuzz::require(again.size() <= bytes.size() && LocationMapView::open(again)->size() == entries.size(),
                "a map is written again");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, data + size);
  check(bytes);
  if (size < Digest::kSize) return 0;
  // With a digest that fits, which the fuzzer cannot guess.
  const Digest digest = sha256(ByteView(bytes).first(size - Digest::kSize));
  std::copy(digest.bytes.begin(), digest.bytes.end(), bytes.end() - Digest::kSize);
  check(bytes);
  return 0;
}
