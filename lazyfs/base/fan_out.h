// SPDX-License-Identifier: Apache-2.0
// Independent jobs that mostly wait, on a few threads of their own.
#pragma once

#include <cstddef>
#include <functional>

namespace dsec {

// Calls job(0) to job(count - 1), each once, at most `at_once` of them at a time, and returns when all are done. The
// caller's thread takes part; with one job, or when no thread can be had, it does all. Jobs are begun in order. `job`
// must be safe to call from several threads and must not throw.
void fan_out(std::size_t count, unsigned at_once, const std::function<void(std::size_t)>& job);

}  // namespace dsec
