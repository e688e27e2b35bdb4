// SPDX-License-Identifier: Apache-2.0
// One io_uring and the reads in it.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/guarded.h"
#include "base/result.h"

namespace dsec::io {

// Up to `depth` reads at once. There is no thread for completions: of the threads that wait, one (the leader) sleeps in
// the kernel for the next completion and hands out what came; the others sleep until their read is done or the leader
// has gone. A lone reader therefore never changes threads. Thread-safe.
class Ring {
 public:
  // Errors as make_uring_engine().
  static Result<std::unique_ptr<Ring>> create(unsigned depth);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Completes `buffer`, of which the first `done` bytes are there. As ReadEngine::read().
  Result<Bytes> read(const std::shared_ptr<const Fd>& fd, std::uint64_t offset, Bytes buffer, std::size_t done,
                     Deadline deadline);

 private:
  // A read in the kernel's hands. It owns itself until the kernel is done with it, since its caller may give it up.
  struct Op {
    std::shared_ptr<const Fd> fd;
    std::uint64_t offset = 0;
    Bytes buffer;
    std::size_t done = 0;
    int error = 0;
    int repeats = 0;
    bool is_finished = false;
    bool is_abandoned = false;
    std::shared_ptr<Op> self;
  };
  struct State {
    unsigned in_flight = 0;
    bool has_leader = false;
  };

  explicit Ring(unsigned depth) : depth_(depth) {}

  // Until `attempt(state)`, called with the lock held, is true; false when the deadline passed.
  template <typename Attempt>
  bool drive_until(Deadline deadline, Attempt attempt);
  // The lock must be held for all of these.
  bool start(State& state, const std::shared_ptr<Op>& op);
  bool queue_read(Op& op);
  void cancel(Op& op);
  bool flush();
  void reap(State& state);
  void complete(State& state, Op& op, int result);
  // Without the lock: sleeps until there is a completion or the deadline has passed.
  void sleep_until_completion(Deadline deadline);

  unsigned depth_;
  struct io_uring ring_ {};
  Guarded<State> state_;
};

}  // namespace dsec::io
