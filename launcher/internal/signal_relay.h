// SPDX-License-Identifier: Apache-2.0
// Signals that reach this process, passed on to the monitors of the sandboxes it runs.
#pragma once

#include "base/result.h"

namespace dsec::launcher {

// While one of these lives, every forwarded signal (kForwarded in the .cc, without those that are ignored) is written
// as one byte, its number, to `control`, which the caller keeps open longer. Handlers are installed with the first and
// put back with the last. Thread-safe; a byte that does not fit into a full socket is dropped.
class SignalRelay {
 public:
  static Result<SignalRelay> to(int control);
  SignalRelay(SignalRelay&& other) noexcept : control_(other.control_) { other.control_ = -1; }
  SignalRelay& operator=(SignalRelay&&) = delete;
  ~SignalRelay();

 private:
  explicit SignalRelay(int control) : control_(control) {}
  int control_;
};

}  // namespace dsec::launcher
