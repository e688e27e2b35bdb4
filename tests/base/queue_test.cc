// SPDX-License-Identifier: Apache-2.0
#include "base/queue.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/metrics.h"

using namespace dsec;
using namespace std::chrono_literals;

TEST_CASE("a queue gives items in their order") {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) CHECK(queue.push(i));
  for (int i = 0; i < 3; ++i) CHECK(queue.pop() == i);
}

TEST_CASE("a full queue blocks who pushes until there is room") {
  BoundedQueue<int> queue(1);
  REQUIRE(queue.push(1));
  std::atomic<bool> pushed{false};
  std::thread pusher([&] {
    queue.push(2);
    pushed = true;
  });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(pushed);
  CHECK(queue.pop() == 1);
  CHECK(queue.pop() == 2);
  pusher.join();
  CHECK(pushed);
}

TEST_CASE("a closed queue takes nothing and gives what is left") {
  BoundedQueue<std::unique_ptr<int>> queue(4);
  REQUIRE(queue.push(std::make_unique<int>(1)));
  queue.close();
  CHECK_FALSE(queue.push(std::make_unique<int>(2)));
  CHECK(**queue.pop() == 1);
  CHECK_FALSE(queue.pop());
  CHECK_FALSE(queue.pop());
}

TEST_CASE("closing wakes all that wait") {
  BoundedQueue<int> empty(1);
  BoundedQueue<int> full(1);
  REQUIRE(full.push(1));
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { empty.pop(); });
    threads.emplace_back([&] { full.push(2); });
  }
  std::this_thread::sleep_for(10ms);
  empty.close();
  full.close();
  for (std::thread& thread : threads) thread.join();
  CHECK(full.pop() == 1);
  CHECK_FALSE(full.pop());
}

TEST_CASE("many threads lose no item and count right") {
  BoundedQueue<int> queue(7);
  Counter sum;
  std::vector<std::thread> takers;
  std::vector<std::thread> givers;
  for (int i = 0; i < 3; ++i) {
    takers.emplace_back([&] {
      while (const auto item = queue.pop()) sum.add(static_cast<std::uint64_t>(*item));
    });
    givers.emplace_back([&] {
      for (int item = 1; item <= 1000; ++item) queue.push(item);
    });
  }
  for (std::thread& giver : givers) giver.join();
  queue.close();
  for (std::thread& taker : takers) taker.join();
  CHECK(sum.get() == 3u * 500500u);
}

TEST_CASE("a wait with a deadline ends at it") {
  Guarded<int> value(0);
  auto lock = value.lock();
  CHECK_FALSE(lock.wait_until(std::chrono::steady_clock::now() + 10ms, [&] { return *lock == 1; }));
  *lock = 1;
  CHECK(lock.wait_until(std::chrono::steady_clock::now() + 10ms, [&] { return *lock == 1; }));
}
