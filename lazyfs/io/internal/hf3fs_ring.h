// SPDX-License-Identifier: Apache-2.0
// One USRBIO ring of reads.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/guarded.h"
#include "io/internal/hf3fs_files.h"

namespace dsec::io {

struct Hf3fsRingOptions {
  std::string mount_point;
  unsigned slots = 0;
  std::size_t slot_bytes = 0;
  int io_depth = 0;
  int batch_wait_ms = 0;
  int numa = -1;
};

// A ring, its memory cut into slots, one thread that prepares and submits and one that waits: the library allows no
// more of each. A slot belongs to one request from before it is prepared until its completion was reaped and its bytes
// were copied, also when nobody waits for it any more. Thread-safe.
class Hf3fsRing : public std::enable_shared_from_this<Hf3fsRing> {
 public:
  // The library's errno as an error.
  static Result<std::shared_ptr<Hf3fsRing>> open(std::shared_ptr<const Hf3fsApi> api, const Hf3fsRingOptions& options);
  // Waits a moment for what is in flight. What is still in flight then ends with the ring: the client process writes
  // into a mapping of its own.
  ~Hf3fsRing();
  Hf3fsRing(const Hf3fsRing&) = delete;
  Hf3fsRing& operator=(const Hf3fsRing&) = delete;

 private:
  struct Request;

 public:
  // A request that was handed to a ring, which it keeps alive. Given up when it ends without an answer.
  class Read {
   public:
    Read(Read&&) = default;
    Read& operator=(Read&&) = delete;
    ~Read();

    // How many bytes came: fewer than asked for at the end of the file, or for no reason. Errors: `corrupt` for a hole,
    // `io` and the like for an errno of the request, `unavailable` when the ring itself failed, `timeout` at the
    // deadline.
    Result<std::size_t> wait(Deadline deadline);

   private:
    friend class Hf3fsRing;
    Read(std::shared_ptr<Hf3fsRing> ring, std::shared_ptr<Request> request)
        : ring_(std::move(ring)), request_(std::move(request)) {}
    std::shared_ptr<Hf3fsRing> ring_;
    std::shared_ptr<Request> request_;
  };

  // Where bytes go: `length` (at most slot_bytes) at `at` in `buffer`, which lives as long as the request may write
  // there.
  struct Target {
    std::shared_ptr<Bytes> buffer;
    std::size_t at = 0;
    std::size_t length = 0;
  };
  // Does not wait: requests beyond the number of slots queue.
  Read start(std::shared_ptr<const Hf3fsFile> file, std::uint64_t offset, Target target);

  // True when waiting on it failed too often: it answers nothing any more.
  [[nodiscard]] bool broken();

 private:
  // Frees what it holds in the order that the library wants.
  class Parts;
  struct State {
    std::deque<std::shared_ptr<Request>> queue;
    std::vector<std::shared_ptr<Request>> slots;  // whose each is
    std::vector<std::size_t> free;
    std::size_t in_flight = 0;
    bool stopping = false;
    bool broken = false;
  };
  using Batch = std::vector<std::shared_ptr<Request>>;

  Hf3fsRing(std::shared_ptr<const Hf3fsApi> api, const Hf3fsRingOptions& options, std::unique_ptr<Parts> parts);
  void submit_loop();
  [[nodiscard]] Batch take_batch();
  void submit(const Batch& batch);
  void reap_loop();
  [[nodiscard]] bool has_work(Deadline& last);
  [[nodiscard]] bool reap(std::vector<Hf3fsCqe>& cqes);
  void complete(const Hf3fsCqe& cqe);
  void copy_out(const Request& request, std::int64_t count) const;
  [[nodiscard]] std::shared_ptr<Request> in_slot(const State& state, const Hf3fsCqe& cqe) const;
  void fail_all(int error);
  void give_up(const std::shared_ptr<Request>& request);
  static void release(State& state, Request& request);
  [[nodiscard]] std::uint8_t* slot_data(std::size_t slot) const;

  std::shared_ptr<const Hf3fsApi> api_;
  std::size_t slot_bytes_;
  std::unique_ptr<Parts> parts_;
  Guarded<State> state_;
  std::thread submitter_;
  std::thread reaper_;
};

}  // namespace dsec::io
