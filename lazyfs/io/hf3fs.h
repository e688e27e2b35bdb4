// SPDX-License-Identifier: Apache-2.0
// Reads of a store on 3FS past its FUSE mount, through USRBIO.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "io/hf3fs_api.h"
#include "io/read_engine.h"

namespace dsec::io {

struct Hf3fsCounters {
  Counter reads;         // calls of read() that the rings answered in full
  Counter bytes;         // of those
  Counter fallbacks;     // calls of read() that went to the fallback engine
  Counter failures;      // requests that a ring failed or did not answer in time
  Counter rings_opened;  // also those opened again
  Counter rings_closed;  // after failures in a row
  Counter abandoned;     // requests given up at a deadline while the file system had them
};

struct Hf3fsOptions {
  std::string mount_point;                  // as hf3fs_mount_point() gives it
  unsigned rings = 4;                       // 1 to 64; one ring alone does not fill the network
  unsigned slots = 16;                      // requests in flight for each ring: 1 to 1024
  std::size_t slot_bytes = 1 << 20;         // the longest request: a multiple of 4096, 4 KiB to 64 MiB
  int io_depth = 0;                         // -1024 to 0; exact batches (> 0) would wait for requests that never come
  std::chrono::milliseconds batch_wait{0};  // for io_depth < 0; at most 1 s
  std::chrono::milliseconds ring_timeout{10000};  // a ring that has not answered by then has failed: 1 ms to 5 min
  unsigned max_failures = 3;                      // failures in a row that close a ring
  std::chrono::milliseconds first_retry{1000};    // a closed ring is opened again after that, doubled each time,
  std::chrono::milliseconds last_retry{60000};    // up to that
  std::size_t max_files = 512;                    // registered descriptors kept, least recently used given up first
  int numa = -1;
  std::shared_ptr<Hf3fsCounters> counters;  // may be null
};

// An engine over `rings` read-only rings, opened when first needed, each with a memory area of `slots` slots that the
// file system's client process writes into. A read is cut at `slot_bytes`, its parts spread over the rings by file and
// offset. Holes are forbidden: a hole in the file is `corrupt`, as is its end.
//
// `fallback` answers every read that a ring could not: it could not be set up, the descriptor not be registered, the
// request failed or was not answered within `ring_timeout`. One log line tells the first and then at most one every ten
// seconds; each is counted. An error is therefore one of the fallback's, or `corrupt`, or `timeout` when the caller's
// deadline came first. A slot whose request was given up is used again only after its completion came.
//
// Descriptors are registered as duplicates which the engine owns: the caller may close its own at any time. They are
// closed when the caller's Fd is gone, at the latest when 64 other reads came after that.
//
// The functions of the library themselves cannot be interrupted: opening a ring and registering a file ask the file
// system's client process, and a caller hangs with it there, as it would in open(2) or read(2).
//
// `invalid` for options out of their limits.
Result<std::unique_ptr<ReadEngine>> make_hf3fs_engine(const std::shared_ptr<const Hf3fsApi>& api, Hf3fsOptions options,
                                                      std::shared_ptr<ReadEngine> fallback);

}  // namespace dsec::io
