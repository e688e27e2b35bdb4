// SPDX-License-Identifier: Apache-2.0
#include "store/internal/store_queue.h"

namespace dsec::store {

Result<StoreQueue::Turn> StoreQueue::enter(Ticket& ticket, Deadline deadline) {
  auto state = state_.lock();
  const auto is_demand = [&] { return ticket.urgency == Urgency::demand; };
  if (!state.wait_until(deadline, [&] { return is_demand() || state->prefetch < max_prefetch_; })) {
    return fail(ErrorCode::timeout, "no turn to fetch ahead came up in time");
  }
  if (!is_demand()) ++state->prefetch;
  return Turn(*this, ticket.urgency);
}

void StoreQueue::promote(Ticket& ticket) {
  {
    auto state = state_.lock();
    if (ticket.urgency == Urgency::demand) return;
    ticket.urgency = Urgency::demand;
  }
  state_.notify_all();
}

void StoreQueue::leave(Urgency urgency) {
  if (urgency == Urgency::demand) return;
  --state_.lock()->prefetch;
  state_.notify_all();
}

}  // namespace dsec::store
