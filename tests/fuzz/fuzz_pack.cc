// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "format/pack.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::format;

namespace {

constexpr std::size_t kMostPlainBytes = 1 << 20;  // so that one input does not take seconds

void check(ByteView pack) {
  const auto entries = read_pack(pack);
  if (!entries) {
    fuzz::require(entries.error().code == ErrorCode::corrupt, "a bad pack is corrupt");
    return;
  }
  for (const PackEntry& entry : *entries) {
    const auto stored = slice(pack, entry.offset, entry.stored_bytes);
    fuzz::require(stored.has_value(), "chunks lie inside the pack");
    if (entry.plain_bytes <= kMostPlainBytes) (void)decode_chunk(entry.codec, *stored, entry.plain_bytes);
  }
}

// The pack with an index digest that fits, which the fuzzer cannot guess.
void mend(Bytes& pack) {
  if (pack.size() < kPackFooterBytes) return;
  const std::size_t footer_at = pack.size() - kPackFooterBytes;
  const auto index_at = load_le<std::uint64_t>(pack.data() + footer_at + 8);
  if (index_at > footer_at) return;
  const Digest digest = sha256(ByteView(pack).subspan(index_at, footer_at - index_at));
  std::copy(digest.bytes.begin(), digest.bytes.end(), pack.end() - Digest::kSize);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes pack(data, data + size);
  check(pack);
  mend(pack);
  check(pack);
  return 0;
}
