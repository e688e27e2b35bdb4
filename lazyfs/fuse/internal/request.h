// SPDX-License-Identifier: Apache-2.0
// One FUSE request, which is answered exactly once.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <vector>

#include "base/guarded.h"
#include "base/result.h"
#include "fuse/internal/libfuse.h"
#include "fuse/internal/observer.h"
#include "tree/content.h"

namespace dsec::fuse {

// Owns the right to answer. Each reply_*() takes it; what comes second is dropped, so a late thread and the watchdog
// cannot both answer. A request that is destroyed without an answer answers EIO: no reader ever waits for nothing.
class Request {
 public:
  // `observer` outlives it.
  Request(fuse_req_t request, const RequestInfo& info, Observer& observer)
      : request_(request), info_(info), observer_(observer) {}
  ~Request() { reply_error(EIO); }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  void reply_error(int error) {
    if (fuse_req_t request = take(error)) fuse_reply_err(request, error);
  }
  void reply_entry(const fuse_entry_param& entry) {
    if (fuse_req_t request = take(entry.ino == 0 ? ENOENT : 0)) fuse_reply_entry(request, &entry);
  }
  void reply_attr(const struct stat& attributes, double timeout) {
    if (fuse_req_t request = take()) fuse_reply_attr(request, &attributes, timeout);
  }
  void reply_link(const std::string& target) {
    if (fuse_req_t request = take()) fuse_reply_readlink(request, target.c_str());
  }
  void reply_bytes(const char* data, std::size_t size) {
    if (fuse_req_t request = take()) fuse_reply_buf(request, data, size);
  }
  void reply_xattr_size(std::size_t size) {
    if (fuse_req_t request = take()) fuse_reply_xattr(request, size);
  }
  void reply_seek(std::uint64_t offset) {
    if (fuse_req_t request = take()) fuse_reply_lseek(request, static_cast<off_t>(offset));
  }
  void reply_statfs(const struct statvfs& info) {
    if (fuse_req_t request = take()) fuse_reply_statfs(request, &info);
  }
  void reply_slices(const std::vector<tree::Slice>& slices);
  // EIO, since the deadline passed.
  void reply_overdue() {
    if (fuse_req_t request = take(EIO)) {
      observer_.overdue();
      fuse_reply_err(request, EIO);
    }
  }

  [[nodiscard]] const RequestInfo& info() const { return info_; }
  [[nodiscard]] Observer::Clock::time_point received() const { return received_; }
  // What its thread waits for.
  std::atomic<store::Stage>& stage() { return stage_; }

  // For building replies that libfuse sizes (directory entries). Valid until the answer.
  [[nodiscard]] fuse_req_t handle() const { return request_.load(); }

 private:
  // The right to answer; null when it is spent.
  fuse_req_t take(int error = 0) {
    fuse_req_t request = request_.exchange(nullptr);
    if (request != nullptr) observer_.answered(info_, received_, error);
    return request;
  }
  std::atomic<fuse_req_t> request_;
  const RequestInfo info_;
  Observer& observer_;
  const Observer::Clock::time_point received_ = Observer::Clock::now();
  std::atomic<store::Stage> stage_ = store::Stage::working;
};

// Answers EIO for requests whose deadline passed while their thread was stuck in a read of the store that cannot be
// interrupted. `on_stuck` is told how many threads are stuck at each check, so that others can take over. Thread-safe.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  struct Watched {
    std::shared_ptr<Request> request;
    Clock::time_point deadline;
    bool expired = false;
  };
  // In the list for as long as it lives.
  class Watch {
   public:
    Watch(Watchdog& dog, std::shared_ptr<Request> request, Clock::time_point deadline);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Watchdog& dog_;
    std::list<Watched>::iterator place_;
  };

  // Answers what is overdue; returns how many watched requests are past their deadline.
  std::size_t check(Clock::time_point now);
  // All that are in the list, oldest first.
  [[nodiscard]] std::vector<InFlight> requests(Clock::time_point now) const;

 private:
  mutable Guarded<std::list<Watched>> watched_;
};

}  // namespace dsec::fuse
