// SPDX-License-Identifier: Apache-2.0
// Tells the kernel early what will be read of a pack on a local disk.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/guarded.h"
#include "store/internal/forward_reads.h"

namespace dsec::store {

// After a few reads that go forwards in a pack file (forward_reads.h) the next window is asked for (posix_fadvise,
// WILLNEED), before it is wanted: the kernel's own read-ahead starts anew at each gap. Thread-safe.
class DiskReadAhead {
 public:
  void about_to_read(const Fd& file, std::uint64_t offset, std::uint64_t length);

 private:
  Guarded<ForwardReads> reads_{ForwardReads({})};
};

}  // namespace dsec::store
