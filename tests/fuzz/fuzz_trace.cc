// SPDX-License-Identifier: Apache-2.0
#include "format/trace.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::format;

// Its digest would keep nearly every input out: the input is a body, to which the digest is added.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, data + size);
  const Digest digest = sha256(bytes);
  bytes.insert(bytes.end(), digest.view().begin(), digest.view().end());
  const auto trace = read_trace(bytes);
  if (!trace) {
    fuzz::require(trace.error().code == ErrorCode::corrupt, "a bad trace is corrupt");
    return 0;
  }
  fuzz::require(write_trace(*trace) == bytes, "a trace is written as it was read");
  return 0;
}
