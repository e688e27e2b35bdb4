// SPDX-License-Identifier: Apache-2.0
#include "format/trace.h"

#include <catch2/catch.hpp>

#include "format/samples.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

namespace {

// The bytes with another body and a digest that fits it.
Bytes sealed(Bytes bytes, std::size_t at, std::uint8_t value) {
  bytes[at] = value;
  bytes.resize(bytes.size() - Digest::kSize);
  const Digest digest = sha256(bytes);
  bytes.insert(bytes.end(), digest.view().begin(), digest.view().end());
  return bytes;
}

bool is_read(const Bytes& bytes) { return read_trace(bytes).has_value(); }

}  // namespace

TEST_CASE("a trace comes back as it was") {
  CHECK(read_trace(write_trace(sample_trace())).value() == sample_trace());
  CHECK(read_trace(write_trace({})).value().empty());
}

TEST_CASE("F-75: a trace's header and length") {
  const Bytes good = write_trace(sample_trace());
  CHECK(is_read(sealed(good, 8, 3)));
  for (const std::size_t at : {0, 7, 9, 11, 12, 15}) CHECK_FALSE(is_read(sealed(good, at, good[at] ^ 1)));
  CHECK_FALSE(is_read(sealed(good, 8, 2)));
  CHECK_FALSE(is_read(sealed(good, 8, 4)));
}

TEST_CASE("F-76: a trace's digest") {
  Bytes bad = write_trace(sample_trace());
  bad.back() ^= 1;
  CHECK_FALSE(is_read(bad));
}

TEST_CASE("F-77: a trace names a digest once") {
  const Digest twice = digest_of("a");
  CHECK_FALSE(is_read(write_trace({twice, digest_of("b"), twice})));
}
