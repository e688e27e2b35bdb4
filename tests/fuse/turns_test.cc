// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/turns.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace dsec::fuse {
namespace {

TEST_CASE("one thread reads at a time, and the next one when it waits") {
  Turns turns(4);
  REQUIRE(turns.take());
  std::atomic<int> reading = 0;
  std::thread other([&] {
    if (turns.take()) ++reading;
  });
  {
    Turn turn(turns);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(reading == 0);
    about_to_wait();
    CHECK_FALSE(turn.is_held());
    about_to_wait();  // nothing to give any more
  }
  other.join();
  CHECK(reading == 1);
  about_to_wait();  // nobody observes this thread
}

TEST_CASE("turns widen while threads wait for one, to a bound, and spare ones go") {
  Turns turns(2);
  REQUIRE(turns.take());
  turns.widen();  // nobody waits
  CHECK_FALSE(turns.give_if_spare());
  std::atomic<int> reading = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      if (turns.take()) ++reading;
    });
  }
  while (reading == 0) turns.widen();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int i = 0; i < 10; ++i) turns.widen();
  CHECK(reading == 1);  // two in all
  turns.lend();         // one of them is late
  while (reading < 2) std::this_thread::yield();
  turns.give();  // it comes after all: that ends the loan
  CHECK(turns.give_if_spare());
  CHECK_FALSE(turns.give_if_spare());
  turns.stop();
  for (std::thread& other : others) other.join();
  CHECK(reading == 2);
  CHECK_FALSE(turns.take());
}

TEST_CASE("the turn that was lent for a late one is not spare") {
  Turns turns(2);
  REQUIRE(turns.take());  // is late
  turns.lend();
  REQUIRE(turns.take());
  CHECK_FALSE(turns.give_if_spare());
  turns.give();  // the late one comes
  CHECK_FALSE(turns.give_if_spare());
  turns.give();
  CHECK(turns.take());
}

TEST_CASE("turns of threads that come and go are neither lost nor doubled") {
  Turns turns(3);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 2000 && turns.take(); ++n) {
        Turn turn(turns);
        const int now = ++inside;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        if ((n + i) % 3 == 0) turns.widen();
        --inside;
        if ((n + i) % 5 == 0) turn.give_up_if_spare();
        if ((n + i) % 7 == 0) turn.about_to_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(most <= 3);
  CHECK(turns.take());  // at least one is left
}

TEST_CASE("polling stops when requests are far apart and begins again when they come soon") {
  using namespace std::chrono_literals;
  SpinBudget budget(50us);
  CHECK(budget.now() == 0us);
  budget.arrived(10us);
  CHECK(budget.now() == 50us);
  for (int i = 0; i < 3; ++i) budget.arrived(1ms);
  CHECK(budget.now() == 50us);
  budget.arrived(1ms);
  CHECK(budget.now() == 0us);
  budget.arrived(50us);
  CHECK(budget.now() == 50us);
  CHECK(SpinBudget(0us).now() == 0us);
}

}  // namespace
}  // namespace dsec::fuse
