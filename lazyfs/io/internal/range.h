// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"

namespace dsec::io {

inline tl::unexpected<Error> ends_early(std::uint64_t offset, std::size_t length, std::size_t there) {
  return fail(ErrorCode::corrupt, "the file ends early: {} bytes wanted at {}, {} there", length, offset, there);
}

// What every engine checks first: no offset is negative as off_t or wraps, and there is time left.
inline Result<void> check_request(std::uint64_t offset, std::size_t length, Deadline deadline) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (offset > kMax || length > kMax - offset) return ends_early(offset, length, 0);
  if (has_passed(deadline)) return fail(ErrorCode::timeout, "no time left to read {} bytes at {}", length, offset);
  return {};
}

// What of `out` is in the page cache, read on this thread; 0 when nothing is or it cannot be known.
inline std::size_t read_cached(const Fd& fd, std::uint64_t offset, Bytes& out) {
  const struct iovec part { out.data(), out.size() };
  const ssize_t n = ::preadv2(fd.get(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

}  // namespace dsec::io
