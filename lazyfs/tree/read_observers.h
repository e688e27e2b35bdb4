// SPDX-License-Identifier: Apache-2.0
// Who wants to know what readers use.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/digest.h"
#include "base/guarded.h"

namespace dsec::tree {

// Is told the digest of each chunk and each recipe that a reader uses, each time, from whatever cache it came. In the
// thread of the reader, which waits meanwhile; thread-safe.
class ReadObserver {
 public:
  virtual ~ReadObserver() = default;
  virtual void used(const Digest& digest) = 0;
};

// The observers of some readers; costs those nothing while there are none. Thread-safe.
class ReadObservers final : public ReadObserver {
 public:
  void add(std::shared_ptr<ReadObserver> observer) {
    auto list = list_.lock();
    list->push_back(std::move(observer));
    any_ = true;
  }
  void remove(const std::shared_ptr<ReadObserver>& observer) {
    auto list = list_.lock();
    std::erase(*list, observer);
    any_ = !list->empty();
  }

  void used(const Digest& digest) override {
    if (!any_.load(std::memory_order_relaxed)) return;
    auto list = list_.lock();
    for (const auto& observer : *list) observer->used(digest);
  }

 private:
  std::atomic<bool> any_ = false;
  Guarded<std::vector<std::shared_ptr<ReadObserver>>> list_;
};

}  // namespace dsec::tree
