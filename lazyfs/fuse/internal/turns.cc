// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/turns.h"

namespace dsec::fuse {

bool Turns::take() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  freed_.wait(lock, [this] { return free_ > 0 || stopped_; });
  --waiting_;
  if (stopped_) return false;
  --free_;
  return true;
}

void Turns::give() {
  const std::lock_guard lock(mutex_);
  if (lent_ > 0) {
    --lent_;
    --total_;
    return;
  }
  ++free_;
  freed_.notify_one();
}

bool Turns::give_if_spare() {
  const std::lock_guard lock(mutex_);
  if (total_ - lent_ == 1) return false;  // who is late does not read
  --total_;
  return true;
}

void Turns::widen() {
  const std::lock_guard lock(mutex_);
  if (total_ >= most_ || waiting_ == 0 || free_ > 0) return;
  ++total_;
  ++free_;
  freed_.notify_one();
}

void Turns::lend() {
  const std::lock_guard lock(mutex_);
  ++total_;
  ++lent_;
  ++free_;
  freed_.notify_one();
}

void Turns::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  freed_.notify_all();
}

}  // namespace dsec::fuse
