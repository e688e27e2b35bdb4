// SPDX-License-Identifier: Apache-2.0
// A bounded queue between threads.
#pragma once

#include <deque>
#include <optional>

#include "base/guarded.h"

namespace dsec {

// At most `capacity` items wait; push() blocks while it is full, pop() while it is empty and open. close() wakes
// everybody: pushes then fail and pops drain what is left. Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // False when the queue is closed; the item is then dropped.
  bool push(T item) {
    auto state = state_.lock();
    state.wait([&] { return state->closed || state->items.size() < capacity_; });
    if (state->closed) return false;
    state->items.push_back(std::move(item));
    state_.notify_all();
    return true;
  }

  // Nothing when the queue is closed and empty.
  std::optional<T> pop() {
    auto state = state_.lock();
    state.wait([&] { return state->closed || !state->items.empty(); });
    if (state->items.empty()) return std::nullopt;
    std::optional<T> item(std::move(state->items.front()));
    state->items.pop_front();
    state_.notify_all();
    return item;
  }

  void close() {
    state_.lock()->closed = true;
    state_.notify_all();
  }

 private:
  struct State {
    std::deque<T> items;
    bool closed = false;
  };
  std::size_t capacity_;
  Guarded<State> state_;
};

}  // namespace dsec
