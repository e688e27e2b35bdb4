// SPDX-License-Identifier: Apache-2.0
// Stored chunks: the first 4 bytes of the input are codec and plain length, the rest the stored bytes. The same rest is
// also taken for plain bytes.
#include <algorithm>

#include "format/chunk.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::format;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const ByteView rest(data + 4, size - 4);
  const std::size_t plain_bytes = load_le<std::uint32_t>(data) >> 12;  // up to 1 MiB
  const auto decoded = decode_chunk(static_cast<Codec>(data[0] % 3), rest, plain_bytes);
  if (decoded)
    fuzz::require(decoded->size() == plain_bytes, "a decoded chunk has its length");
  else
    fuzz::require(decoded.error().code == ErrorCode::corrupt, "a bad chunk is corrupt");

  const Encoded encoded = encode_chunk(rest, data[1] % 2 == 0 ? Effort::fast : Effort::high);
  const ByteView stored = encoded.codec == Codec::plain ? rest : ByteView(encoded.bytes);
  const auto stored_bytes = static_cast<std::uint32_t>(stored.size());
  fuzz::require(
      rest.empty() || sizes_are_possible(encoded.codec, stored_bytes, static_cast<std::uint32_t>(rest.size())),
      "what is encoded has possible sizes");
  const auto back = decode_chunk(encoded.codec, stored, rest.size());
  fuzz::require(back && std::equal(back->begin(), back->end(), rest.begin(), rest.end()),
                "a chunk comes back as it was");
  return 0;
}
