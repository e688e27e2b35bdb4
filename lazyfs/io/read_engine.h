// SPDX-License-Identifier: Apache-2.0
// Positional reads of files behind one interface.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/fd.h"
#include "base/result.h"

namespace dsec::io {

// Reads ranges of files. Thread-safe: any number of threads may call read() at once; an engine that has a depth makes
// the callers beyond it wait.
class ReadEngine {
 public:
  virtual ~ReadEngine() = default;

  // Fills all of `out` from `offset` of `fd`, which stays the caller's. `corrupt` when the file ends before that, `io`
  // (with errno) when the read fails. `out` has unspecified content after an error.
  virtual Result<void> read(const Fd& fd, std::uint64_t offset, std::span<std::uint8_t> out) = 0;
};

// pread(2) on the calling thread; no depth.
std::unique_ptr<ReadEngine> make_sync_engine();

}  // namespace dsec::io
