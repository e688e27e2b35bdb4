// SPDX-License-Identifier: Apache-2.0
#include "store/internal/disk_read_ahead.h"

#include <fcntl.h>

namespace dsec::store {

void DiskReadAhead::about_to_read(const Fd& file, std::uint64_t offset, std::uint64_t length) {
  const auto due = reads_.lock()->note(offset, length);
  if (!due) return;
  ::posix_fadvise(file.get(), static_cast<off_t>(due->from), static_cast<off_t>(due->to - due->from),
                  POSIX_FADV_WILLNEED);
}

}  // namespace dsec::store
