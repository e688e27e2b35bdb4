// SPDX-License-Identifier: Apache-2.0
// What can be seen of the requests of a session while it serves.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "base/metrics.h"
#include "store/read_cost.h"
#include "tree/node.h"

namespace dsec::fuse {

enum class Operation : std::uint8_t {
  lookup,
  getattr,
  readlink,
  read,
  lseek,
  readdir,
  readdirplus,
  getxattr,
  listxattr,
  statfs,
};
inline constexpr std::size_t kOperations = 10;
const char* to_string(Operation operation);

// By Operation. OPEN and OPENDIR are refused once and not measured.
struct RequestStats {
  std::array<LatencyHistogram, kOperations> took;  // from the request's arrival until its answer goes to the kernel
  std::array<Counter, kOperations> eio;            // answered EIO
  Counter overdue;                                 // of these: since the deadline passed
};

// A request that may wait for the store and has no answer yet, or whose thread is still at it.
struct InFlight {
  Operation operation = Operation::read;
  tree::NodeId node;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::chrono::nanoseconds age{0};
  store::Stage stage = store::Stage::working;
  bool is_overdue = false;  // answered EIO; its thread hangs
};

// A request that was answered.
struct RequestEvent {
  Operation operation = Operation::read;
  tree::NodeId node;
  std::string name;  // that was looked up, or of an xattr
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::chrono::system_clock::time_point answered;
  std::chrono::nanoseconds took{0};
  int error = 0;  // an errno; ENOENT also for an absence that the kernel keeps
  store::ReadCost cost;
};

// Gets the events of taps; what does not fit is dropped and counted. Thread-safe.
class RequestListener {
 public:
  static constexpr std::size_t kMaxEvents = 8192;

  void put(RequestEvent event);
  struct Batch {
    std::vector<RequestEvent> events;
    std::uint64_t dropped = 0;  // since the last batch
  };
  // Up to `most` events, oldest first; waits for one for at most `patience`.
  Batch take(std::size_t most, std::chrono::milliseconds patience);

 private:
  struct State {
    std::deque<RequestEvent> events;
    std::uint64_t dropped = 0;
  };
  Guarded<State> state_;
};

// Where sessions show what they answered. Costs one relaxed load a request while nobody listens. Thread-safe.
class RequestTap {
 public:
  [[nodiscard]] bool is_on() const { return listening_.load(std::memory_order_relaxed); }
  void publish(const RequestEvent& event);
  // For as long as the listener lives.
  void add(const std::shared_ptr<RequestListener>& listener);
  // Forgets listeners that are gone; publish() does so, too.
  void tidy();

 private:
  std::atomic<bool> listening_ = false;
  Guarded<std::vector<std::weak_ptr<RequestListener>>> listeners_;
};

}  // namespace dsec::fuse
