// SPDX-License-Identifier: Apache-2.0
#include "format/trace.h"

#include <algorithm>
#include <unordered_set>

namespace dsec::format {

namespace {

constexpr std::array<std::uint8_t, 8> kMagic{0x89, 'D', 'S', 'T', 'R', 'C', '1', '\n'};
constexpr std::size_t kHeaderBytes = 16;  // magic, entries, reserved

}  // namespace

Bytes write_trace(const Trace& trace) {
  const std::size_t count = std::min(trace.size(), kMaxTraceEntries);
  Bytes bytes;
  bytes.reserve(kHeaderBytes + (count + 1) * Digest::kSize);
  ByteWriter writer(bytes);
  writer.put_bytes(kMagic);
  writer.put(static_cast<std::uint32_t>(count));
  writer.put(std::uint32_t{0});
  for (std::size_t i = 0; i < count; ++i) writer.put_bytes(trace[i].view());
  const Digest digest = sha256(bytes);
  writer.put_bytes(digest.view());
  return bytes;
}

Result<Trace> read_trace(ByteView bytes) {
  if (bytes.size() < kHeaderBytes + Digest::kSize || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return fail(ErrorCode::corrupt, "trace: no header, or too short");
  }
  const ByteView body = bytes.first(bytes.size() - Digest::kSize);
  ByteReader reader(body.subspan(kMagic.size()));
  const auto count = reader.get<std::uint32_t>();
  const auto reserved = reader.get<std::uint32_t>();
  if (reserved != 0 || count > kMaxTraceEntries || reader.remaining() != std::uint64_t{count} * Digest::kSize) {
    return fail(ErrorCode::corrupt, "trace: {} bytes do not hold {} entries", bytes.size(), count);
  }
  if (sha256(body) != Digest::from_bytes(bytes.last(Digest::kSize))) {
    return fail(ErrorCode::corrupt, "trace: its digest does not fit");
  }
  Trace trace;
  trace.reserve(count);
  std::unordered_set<Digest> seen;
  for (std::uint32_t i = 0; i < count; ++i) {
    trace.push_back(Digest::from_bytes(reader.get_bytes(Digest::kSize)));
    if (!seen.insert(trace.back()).second) return fail(ErrorCode::corrupt, "trace: entry {} is there before", i);
  }
  return trace;
}

}  // namespace dsec::format
