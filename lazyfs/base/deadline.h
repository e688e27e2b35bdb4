// SPDX-License-Identifier: Apache-2.0
// Until when an operation may take.
#pragma once

#include <chrono>

namespace dsec {

// A point of the monotonic clock. Deadline::max() means for ever.
using Deadline = std::chrono::steady_clock::time_point;

[[nodiscard]] inline bool has_passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

}  // namespace dsec
