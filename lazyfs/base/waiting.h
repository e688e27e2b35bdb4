// SPDX-License-Identifier: Apache-2.0
// Lets who runs a thread know that it is about to wait.
#pragma once

namespace dsec {

// Told at most as often as the thread waits, on that thread. Must be quick and must not fail.
class WaitObserver {
 public:
  WaitObserver();           // becomes the one of this thread
  virtual ~WaitObserver();  // on the same thread: the one before is it again
  WaitObserver(const WaitObserver&) = delete;
  WaitObserver& operator=(const WaitObserver&) = delete;
  virtual void about_to_wait() = 0;

 private:
  WaitObserver* outer_;
};

// Called by code below before it waits for a disk, a network or another thread for what may be long. Costs nothing on
// threads that nobody observes. A server thread uses it to let another one take the next request.
void about_to_wait();

}  // namespace dsec
