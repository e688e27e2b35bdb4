// SPDX-License-Identifier: Apache-2.0
// Counts, measures and shows answers.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "fuse/observe.h"

namespace dsec::fuse {

// What a request is about. `name` lives as long as the callback that serves it.
struct RequestInfo {
  Operation operation = Operation::read;
  tree::NodeId node;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string_view name = {};
};

// Thread-safe.
class Observer {
 public:
  using Clock = std::chrono::steady_clock;

  // `tap` may be null.
  explicit Observer(std::shared_ptr<RequestTap> tap) : tap_(std::move(tap)) {}

  // Before the answer goes out, so that who has it finds it counted. On the thread that answers.
  void answered(const RequestInfo& info, Clock::time_point received, int error);
  void overdue() { stats_.overdue.add(); }
  [[nodiscard]] const RequestStats& stats() const { return stats_; }

 private:
  RequestStats stats_;
  std::shared_ptr<RequestTap> tap_;
};

}  // namespace dsec::fuse
