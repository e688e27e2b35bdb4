// SPDX-License-Identifier: Apache-2.0
#include "store/internal/read_ahead.h"

#include <algorithm>

namespace dsec::store {

namespace {

// A miss this little beyond the end of a fetch still follows it.
constexpr std::uint64_t kSlackBlocks = 2;

}  // namespace

std::uint64_t ReadAhead::plan(const Digest& pack, std::uint64_t at, std::uint64_t wanted) {
  auto stream = std::find_if(streams_.begin(), streams_.end(), [&](const Stream& known) {
    return known.blocks > 0 && known.pack == pack && at >= known.next && at <= known.next + kSlackBlocks;
  });
  if (stream != streams_.end()) {
    stream->blocks = std::min(2 * stream->blocks, max_blocks_);
  } else {
    stream = std::min_element(streams_.begin(), streams_.end(),
                              [](const Stream& a, const Stream& b) { return a.used_at < b.used_at; });
    *stream = {pack, 0, first_blocks_, 0};
  }
  const std::uint64_t count = std::max(wanted, stream->blocks);
  stream->next = at + count;
  stream->used_at = ++clock_;
  return count;
}

}  // namespace dsec::store
