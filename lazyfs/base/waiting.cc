// SPDX-License-Identifier: Apache-2.0
#include "base/waiting.h"

#include <utility>

namespace dsec {

namespace {

thread_local WaitObserver* observer_of_this_thread = nullptr;

}  // namespace

WaitObserver::WaitObserver() : outer_(std::exchange(observer_of_this_thread, this)) {}

WaitObserver::~WaitObserver() { observer_of_this_thread = outer_; }

void about_to_wait() {
  if (observer_of_this_thread != nullptr) observer_of_this_thread->about_to_wait();
}

}  // namespace dsec
