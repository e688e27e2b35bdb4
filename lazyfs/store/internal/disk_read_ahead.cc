// SPDX-License-Identifier: Apache-2.0
#include "store/internal/disk_read_ahead.h"

#include <fcntl.h>

#include <algorithm>

namespace dsec::store {

std::uint64_t DiskReadAhead::plan(std::uint64_t offset, std::uint64_t length) {
  auto lock = stream_.lock();
  Stream& stream = *lock;
  const std::uint64_t distance = offset > stream.end ? offset - stream.end : stream.end - offset;
  if (distance > kNearBytes) {
    stream = {offset + length, 0, 0};
    return 0;
  }
  stream.end = std::max(stream.end, offset + length);
  if (++stream.streak < kStreak || stream.ahead > stream.end + kWindowBytes / 2) return 0;
  const std::uint64_t from = std::max(stream.ahead, stream.end);
  stream.ahead = from + kWindowBytes;
  return from;
}

void DiskReadAhead::about_to_read(const Fd& file, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t from = plan(offset, length);
  if (from > 0) ::posix_fadvise(file.get(), static_cast<off_t>(from), kWindowBytes, POSIX_FADV_WILLNEED);
}

}  // namespace dsec::store
