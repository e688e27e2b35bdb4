// SPDX-License-Identifier: Apache-2.0
// Who may read from the store now.
#pragma once

#include "base/deadline.h"
#include "base/guarded.h"
#include "base/result.h"
#include "store/chunk_source.h"

namespace dsec::store {

// Demand goes at once (the depth of the read engine bounds it). Of what is fetched ahead, at most `max_prefetch` reads
// run, also beside demand: whoever waits for the store most, a program that starts, reads all the time, and is helped
// most by what is fetched meanwhile. So demand shares the store with that many reads at most and never waits for one
// that has not begun. Thread-safe.
class StoreQueue {
 public:
  explicit StoreQueue(unsigned max_prefetch) : max_prefetch_(max_prefetch) {}

  // What waits; promote() changes it.
  struct Ticket {
    Urgency urgency = Urgency::demand;
  };

  // The right to read, until it goes out of scope.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)), urgency_(other.urgency_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (queue_ != nullptr) queue_->leave(urgency_);
    }

   private:
    friend class StoreQueue;
    Turn(StoreQueue& queue, Urgency urgency) : queue_(&queue), urgency_(urgency) {}
    StoreQueue* queue_;
    Urgency urgency_;
  };

  // `timeout` when the deadline passes first. The ticket must live until then.
  Result<Turn> enter(Ticket& ticket, Deadline deadline);
  // Somebody waits for it now.
  void promote(Ticket& ticket);

 private:
  struct State {
    unsigned prefetch = 0;  // reads that run
  };
  void leave(Urgency urgency);

  unsigned max_prefetch_;
  Guarded<State> state_;
};

}  // namespace dsec::store
