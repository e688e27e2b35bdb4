// SPDX-License-Identifier: Apache-2.0
#include "store/internal/forward_reads.h"

#include <algorithm>

namespace dsec::store {

std::optional<ForwardReads::Range> ForwardReads::note(std::uint64_t offset, std::uint64_t length) {
  const auto is_near = [&](const Stream& stream) {
    return (offset > stream.end ? offset - stream.end : stream.end - offset) <= options_.near_bytes;
  };
  auto found = std::find_if(streams_.begin(), streams_.end(), is_near);
  if (found == streams_.end()) {
    if (streams_.size() == options_.streams) streams_.pop_back();
    streams_.insert(streams_.begin(), {offset + length, 0, 1});
    return std::nullopt;
  }
  std::rotate(streams_.begin(), found, found + 1);
  Stream& stream = streams_.front();
  stream.end = std::max(stream.end, offset + length);
  if (++stream.streak < options_.streak || stream.ahead > stream.end + options_.window_bytes / 2) return std::nullopt;
  const std::uint64_t from = std::max(stream.ahead, stream.end);
  stream.ahead = from + options_.window_bytes;
  return Range{from, stream.ahead};
}

}  // namespace dsec::store
