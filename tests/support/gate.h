// SPDX-License-Identifier: Apache-2.0
// A place where threads of a test wait until the test lets them go on.
#pragma once

#include <atomic>

namespace dsec::test {

// Closed at first; once it is open it stays so. For any thread.
class Gate {
 public:
  void wait() const { is_open_.wait(false); }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }

 private:
  std::atomic<bool> is_open_ = false;
};

}  // namespace dsec::test
