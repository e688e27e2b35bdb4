// SPDX-License-Identifier: Apache-2.0
// Positional reads of files behind one interface.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"

namespace dsec::io {

// Reads ranges of regular files. Thread-safe: any number of threads may call read() at once; an engine that has a depth
// makes the callers beyond it wait, each until its own deadline.
class ReadEngine {
 public:
  virtual ~ReadEngine() = default;

  // The `length` bytes at `offset` of `fd`, all of them. Errors:
  //   corrupt  the file ends before that
  //   io       the read failed, with its errno (other codes of an errno as fail_sys() gives them)
  //   timeout  the deadline passed first, at the latest shortly after it. What the kernel still does then goes on by
  //            itself: the engine keeps buffer and descriptor alive until it is done, and such an abandoned read goes
  //            on counting against the depth.
  // A deadline that has passed already is a timeout without a read. `length` 0 is no read and succeeds. `fd` must be
  // valid; the engine shares it for as long as it needs it.
  virtual Result<Bytes> read(const std::shared_ptr<const Fd>& fd, std::uint64_t offset, std::size_t length,
                             Deadline deadline) = 0;
};

// pread(2) on the calling thread; no depth. It cannot give up a read that the kernel has taken: one that hangs keeps
// its caller beyond the deadline.
std::unique_ptr<ReadEngine> make_sync_engine();

struct UringOptions {
  unsigned depth = 64;  // reads in flight, over all rings: 1 to 4096
  unsigned rings = 2;   // 1 to 16, at most `depth`; reads go to them in turn
};
// io_uring. `unsupported` when the kernel has none (ENOSYS), refuses it (EPERM: seccomp, kernel.io_uring_disabled) or
// has one older than 5.11; the message says which. The destructor waits a moment for what is in flight; buffers of
// reads that the kernel does not give back are left to it.
Result<std::unique_ptr<ReadEngine>> make_uring_engine(UringOptions options);

}  // namespace dsec::io
