// SPDX-License-Identifier: Apache-2.0
#include "base/fan_out.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace dsec {

void fan_out(std::size_t count, unsigned at_once, const std::function<void(std::size_t)>& job) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) job(i);
  };
  std::vector<std::thread> helpers;
  const std::size_t wanted = std::min<std::size_t>(std::max(at_once, 1u), count);
  try {
    while (helpers.size() + 1 < wanted) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // fewer threads do it too
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace dsec
