// SPDX-License-Identifier: Apache-2.0
// What stands between libfuse and the descriptor.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace dsec::fuse {

// Reads requests and writes replies for one libfuse session, so that the session can begin on a connection that a
// predecessor has already used: libfuse is given the recorded INIT first, and its answer to that may come too late.
// Thread-safe, but for give_init().
class Wire {
 public:
  // What to do with requests that come a second time because a predecessor took them and died.
  enum class Resent {
    serve,
    refuse,  // answer EIO: one of them may be what killed it
  };
  explicit Wire(Resent resent) : resent_(resent) {}

  // The next read() gives these bytes. Before there are threads.
  void give_init(Bytes init);

  // As read(2) and writev(2), errno included.
  ssize_t read(int fd, void* bytes, std::size_t size);
  ssize_t write(int fd, const iovec* vectors, int count) const;

 private:
  // Whether it was answered here.
  bool refused(int fd, const void* request, std::size_t size) const;

  Resent resent_;
  Bytes init_;
  std::uint64_t init_unique_ = 0;
};

}  // namespace dsec::fuse
