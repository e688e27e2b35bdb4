// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/observer.h"

#include <cerrno>

namespace dsec::fuse {

void Observer::answered(const RequestInfo& info, Clock::time_point received, int error) {
  const auto took = Clock::now() - received;
  const auto operation = static_cast<std::size_t>(info.operation);
  stats_.took[operation].add(took);
  if (error == EIO) stats_.eio[operation].add();
  if (!tap_ || !tap_->is_on()) return;
  RequestEvent event;
  event.operation = info.operation;
  event.node = info.node;
  event.name = info.name;
  event.offset = info.offset;
  event.length = info.length;
  event.answered = std::chrono::system_clock::now();
  event.took = took;
  event.error = error;
  if (const store::ReadCost* const cost = store::CostScope::current(); cost != nullptr) event.cost = *cost;
  tap_->publish(event);
}

}  // namespace dsec::fuse
