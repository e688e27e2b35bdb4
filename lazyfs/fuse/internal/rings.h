// SPDX-License-Identifier: Apache-2.0
// The io_uring transport of one session. The kernel has one queue of requests for each processor and hands a request to
// a place that a server thread registered for the queue of the caller's processor (fs/fuse/dev_uring.c).
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"
#include "fuse/internal/stand_back.h"

namespace dsec::fuse {

// How many queues the kernel has: one for each processor that could ever be there.
unsigned ring_queues();

// Memory for one request and its answer. One thread at a time has it: the thread that the request came to, or, once
// another thread has answered in its stead, the next thread that takes it.
class RingPlace {
 public:
  // `payload_bytes` as the kernel demands: the largest answer.
  RingPlace(unsigned queue, std::size_t payload_bytes);
  RingPlace(const RingPlace&) = delete;
  RingPlace& operator=(const RingPlace&) = delete;

  [[nodiscard]] unsigned queue() const { return queue_; }

 private:
  friend class RingSeat;
  friend class Rings;
  void put_answer(const iovec* vectors, int count);

  unsigned queue_;
  std::unique_ptr<std::uint8_t[]> memory_;  // headers in the first page, then the payload
  std::size_t payload_bytes_;               // of which the kernel sees all
  std::array<iovec, 2> parts_;              // what REGISTER tells the kernel
  std::uint64_t commit_id_ = 0;             // of the request that is there
  std::atomic<std::uint64_t> unique_ = 0;   // the same as libfuse knows it; 0: none, or it is answered
  bool registered_ = false;
  std::atomic<std::uint64_t> losses_ = 0;  // how often another thread answered than the one that a request came to
};

// A thread's ring, with at most one command in it: the kernel gives a request only to a thread that waits for one. For
// the thread that made it.
class RingSeat {
 public:
  static Result<std::unique_ptr<RingSeat>> create(int device);
  ~RingSeat();
  RingSeat(const RingSeat&) = delete;
  RingSeat& operator=(const RingSeat&) = delete;

  // Gives the kernel the answer that is in the place, if there is one, and waits for the next request, which it lays
  // out in `room` as read(2) of /dev/fuse would. Returns its length, or an errno negated: EINTR when a signal came,
  // ENOTCONN when the file system is unmounted.
  int next(RingPlace& place, std::uint8_t* room, std::size_t room_bytes);

 private:
  explicit RingSeat(int device) : device_(device) {}
  bool queue_command(RingPlace& place);

  int device_;
  bool in_kernel_ = false;
  StandBack stand_back_;
  struct io_uring ring_ {};
};

// Answers find their way to the places. Thread-safe, but for add().
class Rings {
 public:
  // All before there are requests.
  void add(std::unique_ptr<RingPlace> place) { places_.push_back(std::move(place)); }
  [[nodiscard]] const std::vector<std::unique_ptr<RingPlace>>& places() const { return places_; }

  // Around the handling of a request on the thread that it came to. end() is false when another thread has answered,
  // which took the place with it. A request that nobody answered gets EIO.
  void begin(RingPlace& place);
  bool end(RingPlace& place);

  // As libfuse writes to /dev/fuse. False: not a request of any place.
  bool answer(const iovec* vectors, int count);

  // A place that another thread has answered in, for a further thread to go on with; null when there is none.
  RingPlace* take_lost();

 private:
  std::vector<std::unique_ptr<RingPlace>> places_;
  std::mutex mutex_;
  std::vector<RingPlace*> lost_;  // guarded by mutex_
};

}  // namespace dsec::fuse
