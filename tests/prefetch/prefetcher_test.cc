// SPDX-License-Identifier: Apache-2.0
#include "prefetch/prefetcher.h"

#include <atomic>
#include <catch2/catch.hpp>

#include "store/store_support.h"

namespace dsec::prefetch {
namespace {

using namespace dsec::test;
using State = Progress::State;

// Remembers what it was asked for; holds reads back while it is closed.
class FakePacks final : public store::PackReader {
 public:
  Result<store::PackBytes> read(const store::PackRequest& request, Deadline) override {
    std::unique_lock lock(mutex_);
    asked.push_back(request);
    seen_.notify_all();
    opened_.wait(lock, [this] { return open; });
    if (failing) return fail(ErrorCode::io, "the store is away");
    return store::PackBytes{nullptr, 0, request.length, store::Origin::store, here ? 0 : request.length};
  }
  Result<std::uint64_t> size_of(const Digest&, Deadline) override { return 0; }

  void set(bool now_open) {
    const std::lock_guard lock(mutex_);
    open = now_open;
    opened_.notify_all();
  }
  void wait_for(std::size_t reads) {
    std::unique_lock lock(mutex_);
    seen_.wait(lock, [&] { return asked.size() >= reads; });
  }

  std::vector<store::PackRequest> asked;
  std::atomic<bool> failing = false;
  std::atomic<bool> here = false;  // nothing comes from the store

 private:
  bool open = true;
  std::mutex mutex_;
  std::condition_variable opened_;
  std::condition_variable seen_;
};

Plan plan_of(std::size_t reads) {
  Plan plan;
  for (std::size_t i = 0; i < reads; ++i) plan.ranges.push_back({digest_of("pack"), i * 100, 100});
  plan.bytes = reads * 100;
  return plan;
}

Progress wait_for_end(const Prefetcher& prefetcher, const std::string& name) {
  for (;;) {
    const auto progress = prefetcher.progress(name);
    REQUIRE(progress);
    if (progress->state != State::waiting && progress->state != State::running) return *progress;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_CASE("a job reads its plan ahead of need and is done") {
  const auto packs = std::make_shared<FakePacks>();
  Prefetcher prefetcher(packs, {});
  CHECK_FALSE(prefetcher.progress("e"));
  prefetcher.start("e", plan_of(10));
  const Progress end = wait_for_end(prefetcher, "e");
  CHECK(end.state == State::done);
  CHECK(end.bytes_planned == 1000);
  CHECK(end.bytes_done == 1000);
  CHECK(end.bytes_fetched == 1000);
  CHECK(prefetcher.bytes_fetched() == 1000);
  CHECK(packs->asked.size() == 10);
  for (const auto& request : packs->asked) CHECK(request.urgency == store::Urgency::prefetch);
  prefetcher.start("nothing", {});
  CHECK(wait_for_end(prefetcher, "nothing").state == State::done);
}

TEST_CASE("no more reads run at a time than there are threads, and a stopped job begins none") {
  const auto packs = std::make_shared<FakePacks>();
  packs->set(false);
  PrefetchOptions options;
  options.threads = 3;
  Prefetcher prefetcher(packs, options);
  prefetcher.start("e", plan_of(100));
  prefetcher.start("e", plan_of(100));  // runs already
  packs->wait_for(3);
  CHECK(packs->asked.size() == 3);
  prefetcher.stop("e");
  packs->set(true);
  CHECK(wait_for_end(prefetcher, "e").state == State::stopped);
  prefetcher.start("e", plan_of(2));  // again
  CHECK(wait_for_end(prefetcher, "e").state == State::done);
  CHECK(packs->asked.size() == 5);
}

TEST_CASE("what somebody runs into goes before what takes everything") {
  const auto packs = std::make_shared<FakePacks>();
  packs->set(false);
  PrefetchOptions options;
  options.threads = 1;
  Prefetcher prefetcher(packs, options);
  Plan plan = plan_of(2);
  prefetcher.start("all", plan, Prefetcher::Order::last);
  packs->wait_for(1);
  for (PackRange& range : plan.ranges) range.pack = digest_of("wanted");
  prefetcher.start("run", plan);
  packs->set(true);
  CHECK(wait_for_end(prefetcher, "all").state == State::done);
  REQUIRE(packs->asked.size() == 4);
  CHECK(packs->asked[1].pack == digest_of("wanted"));
  CHECK(packs->asked[3].pack == digest_of("pack"));
}

TEST_CASE("a prefetcher that is told to stop says whether its reads ended in time") {
  const auto packs = std::make_shared<FakePacks>();
  packs->set(false);
  Prefetcher prefetcher(packs, {});
  prefetcher.start("e", plan_of(10));
  packs->wait_for(2);
  CHECK_FALSE(prefetcher.stop_all(std::chrono::steady_clock::now()));
  packs->set(true);
  CHECK(prefetcher.stop_all(later()));
  CHECK(packs->asked.size() == 2);
}

TEST_CASE("a store that is away fails the job and nothing else") {
  const auto packs = std::make_shared<FakePacks>();
  packs->failing = true;
  Prefetcher prefetcher(packs, {});
  prefetcher.start("e", plan_of(100));
  const Progress end = wait_for_end(prefetcher, "e");
  CHECK(end.state == State::failed);
  CHECK(end.reason == "the store is away");
  CHECK(packs->asked.size() < 20);
  packs->failing = false;
  prefetcher.start("e", plan_of(3));
  CHECK(wait_for_end(prefetcher, "e").state == State::done);
}

TEST_CASE("a prefetcher that goes away in the middle ends its threads") {
  const auto packs = std::make_shared<FakePacks>();
  PrefetchOptions options;
  options.bytes_per_second = 1;  // the second read would wait for minutes
  Prefetcher prefetcher(packs, options);
  prefetcher.start("e", plan_of(50));
  packs->wait_for(1);
}

TEST_CASE("a pacer lets a burst through and then no more than its rate") {
  using std::chrono::milliseconds;
  const auto now = Pacer::Clock::now();
  Pacer pacer(1'000'000);
  CHECK(pacer.free_at() <= now);
  pacer.charge(100'000, now);
  CHECK(pacer.free_at() <= now);
  pacer.charge(100'000, now);
  CHECK(pacer.free_at() == now + milliseconds(100));
  pacer.charge(50'000, now + milliseconds(100));
  CHECK(pacer.free_at() == now + milliseconds(150));
  pacer.refund(150'000);
  CHECK(pacer.free_at() == now);
  Pacer unbounded(0);
  unbounded.charge(~std::uint64_t{0}, now);
  CHECK(unbounded.free_at() <= now);
}

TEST_CASE("a job that waits for bandwidth stops at once, and what was here already costs none") {
  const auto packs = std::make_shared<FakePacks>();
  PrefetchOptions options;
  options.bytes_per_second = 1;
  Prefetcher prefetcher(packs, options);
  packs->here = true;
  prefetcher.start("here", plan_of(50));
  CHECK(wait_for_end(prefetcher, "here").bytes_fetched == 0);
  packs->here = false;
  prefetcher.start("there", plan_of(50));
  packs->wait_for(51);
  prefetcher.stop("there");
  CHECK(wait_for_end(prefetcher, "there").state == State::stopped);
  while (prefetcher.running() > 0) std::this_thread::yield();  // the read that was under way comes back at once
}

}  // namespace
}  // namespace dsec::prefetch
