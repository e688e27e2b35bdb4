// SPDX-License-Identifier: Apache-2.0
#include "fuse/observe.h"

namespace dsec::fuse {

const char* to_string(Operation operation) {
  switch (operation) {
    case Operation::lookup: return "lookup";
    case Operation::getattr: return "getattr";
    case Operation::readlink: return "readlink";
    case Operation::read: return "read";
    case Operation::lseek: return "lseek";
    case Operation::readdir: return "readdir";
    case Operation::readdirplus: return "readdirplus";
    case Operation::getxattr: return "getxattr";
    case Operation::listxattr: return "listxattr";
    case Operation::statfs: return "statfs";
  }
  return "unknown";
}

void RequestListener::put(RequestEvent event) {
  auto state = state_.lock();
  if (state->events.size() >= kMaxEvents) {
    ++state->dropped;
    return;
  }
  state->events.push_back(std::move(event));
  if (state->events.size() == 1) state_.notify_one();
}

RequestListener::Batch RequestListener::take(std::size_t most, std::chrono::milliseconds patience) {
  Batch batch;
  auto state = state_.lock();
  state.wait_until(std::chrono::steady_clock::now() + patience,
                   [&] { return !state->events.empty() || state->dropped > 0; });
  while (!state->events.empty() && batch.events.size() < most) {
    batch.events.push_back(std::move(state->events.front()));
    state->events.pop_front();
  }
  batch.dropped = std::exchange(state->dropped, 0);
  return batch;
}

void RequestTap::publish(const RequestEvent& event) {
  auto listeners = listeners_.lock();
  std::erase_if(*listeners, [&](const auto& weak) {
    const auto listener = weak.lock();
    if (listener) listener->put(event);
    return !listener;
  });
  listening_ = !listeners->empty();
}

void RequestTap::tidy() {
  auto listeners = listeners_.lock();
  std::erase_if(*listeners, [](const auto& weak) { return weak.expired(); });
  listening_ = !listeners->empty();
}

void RequestTap::add(const std::shared_ptr<RequestListener>& listener) {
  auto listeners = listeners_.lock();
  listeners->push_back(listener);
  listening_ = true;
}

}  // namespace dsec::fuse
