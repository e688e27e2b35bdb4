// SPDX-License-Identifier: Apache-2.0
// Data that lives inside its lock.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/waiting.h"

namespace dsec {

// Holds a T that can only be reached while the lock is held:
//   auto state = guarded.lock(); state->count++;
// wait() releases the lock while it sleeps. Never hold it across I/O.
template <typename T>
class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(T value) : value_(std::move(value)) {}

  class Lock {
   public:
    T* operator->() { return &owner_.value_; }
    T& operator*() { return owner_.value_; }
    // Sleeps until `ready()` is true; the lock is held when it is evaluated and on return. Before it sleeps it says so
    // (base/waiting.h).
    template <typename Ready>
    void wait(Ready ready) {
      if (ready()) return;
      about_to_wait();
      owner_.changed_.wait(lock_, ready);
    }
    // The same until `deadline`; returns what `ready()` says at the end.
    template <typename TimePoint, typename Ready>
    bool wait_until(TimePoint deadline, Ready ready) {
      if (ready()) return true;
      about_to_wait();
      return owner_.changed_.wait_until(lock_, deadline, ready);
    }
    void unlock() { lock_.unlock(); }

   private:
    friend class Guarded;
    explicit Lock(Guarded& owner) : owner_(owner), lock_(owner.mutex_) {}
    Guarded& owner_;
    std::unique_lock<std::mutex> lock_;
  };

  Lock lock() { return Lock(*this); }
  void notify_all() { changed_.notify_all(); }
  void notify_one() { changed_.notify_one(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_{};
};

}  // namespace dsec
