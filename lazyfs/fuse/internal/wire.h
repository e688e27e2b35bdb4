// SPDX-License-Identifier: Apache-2.0
// What stands between libfuse and the descriptor.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace dsec::fuse {

class Rings;  // internal/rings.h

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

  // The answer to that INIT shall ask for requests through `rings`, which then take the answers to them. Before there
  // are threads; `rings` outlives the wire.
  void use_rings(Rings& rings) { rings_ = &rings; }
  // How large the kernel's largest request or answer can be, after the answer to INIT.
  [[nodiscard]] std::size_t payload_bytes() const { return payload_bytes_; }

  // As read(2) and writev(2), errno included.
  ssize_t read(int fd, void* bytes, std::size_t size);
  ssize_t write(int fd, const iovec* vectors, int count) const;

 private:
  ssize_t write_init_answer(int fd, const iovec* vectors, int count) const;
  // Whether it was answered here.
  bool refused(int fd, const void* request, std::size_t size) const;

  Resent resent_;
  Bytes init_;
  std::uint64_t init_unique_ = 0;
  Rings* rings_ = nullptr;
  mutable std::size_t payload_bytes_ = 0;  // set before there are threads
};

}  // namespace dsec::fuse
