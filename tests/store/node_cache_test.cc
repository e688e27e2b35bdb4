// SPDX-License-Identifier: Apache-2.0
#include "store/node_cache.h"

#include <thread>

#include "store/internal/window_record.h"
#include "store/node_cache_support.h"
#include "support/gate.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

TEST_CASE("ranges of every shape come back right, from the store and from the cache") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, (5 << 20) + 777);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  const std::size_t size = packs->content(pack).size();
  for (int round = 0; round < 2; ++round) {
    std::mt19937_64 random(3);
    for (int i = 0; i < 200; ++i) {
      const std::size_t offset = random() % size;
      const std::size_t length = 1 + random() % std::min<std::size_t>(size - offset, i % 10 == 0 ? 3 << 20 : 60000);
      REQUIRE(cached.is_right(pack, offset, length));
    }
    cached.cache->settle();
  }
  CHECK(cached.is_right(pack, 0, size));
  CHECK(cached.is_right(pack, size - 1, 1));
}

TEST_CASE("what was read once is not read from the store again, also after a restart") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 3 << 20);
  {
    const Cached cached(packs, cache_options(dir / "cache", kQuota));
    REQUIRE(cached.is_all_right(pack, 50000));
    cached.cache->settle();
    CHECK(packs->bytes_read == 3 << 20);
    REQUIRE(cached.is_all_right(pack, 70000));
    const NodeCacheStats stats = cached.cache->stats();
    CHECK(stats.hits > 0);
    CHECK(stats.store_bytes == 3 << 20);
    CHECK(stats.used_bytes == 3 << 20);
    CHECK(stats.windows == 3);
    CHECK(stats.trouble == "");
  }
  const int reads = packs->reads;
  const Cached again(packs, cache_options(dir / "cache", kQuota));
  REQUIRE(again.is_all_right(pack, 50000));
  CHECK(packs->reads == reads);
  CHECK(again.cache->stats().misses == 0);
}

TEST_CASE("where the bytes came from and what they cost is told") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  const auto first = cached.cache->read({pack, 100, 1000}, later());
  REQUIRE(first);
  CHECK(first->origin == Origin::store);
  CHECK(first->store_bytes == NodeCacheOptions().fetch_first_bytes);
  cached.cache->settle();
  const auto second = cached.cache->read({pack, 100, 1000}, later());
  REQUIRE(second);
  CHECK(second->origin == Origin::cache);
  CHECK(second->store_bytes == 0);
}

TEST_CASE("reads that follow each other are fetched in ever larger pieces, scattered ones in small ones") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 12 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  for (std::uint64_t at = 0; at < 4 << 20; at += 32 << 10) REQUIRE(cached.is_right(pack, at, 32 << 10));
  CHECK(packs->reads <= 12);
  packs->reads = 0;
  packs->bytes_read = 0;
  for (std::uint64_t i = 0; i < 6; ++i) REQUIRE(cached.is_right(pack, (6 + i) << 20, 100));
  CHECK(packs->reads == 6);
  CHECK(packs->bytes_read == 6 * NodeCacheOptions().fetch_first_bytes);
}

TEST_CASE("a range is fetched once however many ask for it") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  NodeCacheOptions options = cache_options(dir / "cache", kQuota);
  options.fetch_first_bytes = 64 << 10;
  const Cached cached(packs, options);
  Gate gate;
  packs->before = [&](const PackRequest&) -> Result<void> {
    gate.wait();
    return {};
  };
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] { right += cached.is_right(pack, i * 1000, 1000) ? 1 : 0; });
  }
  while (packs->reads == 0) std::this_thread::yield();
  gate.open();
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 16);
  CHECK(packs->reads == 1);
}

TEST_CASE("who waits for the fetch of another gives up at its own deadline, and does not fail for the other's") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  Gate gate;
  packs->before = [&](const PackRequest&) -> Result<void> {
    gate.wait();
    return packs->reads == 1 ? Result<void>(fail(ErrorCode::timeout, "the first has no time")) : Result<void>();
  };
  std::thread leader([&] { [[maybe_unused]] const auto ignored = cached.cache->read({pack, 0, 10}, later()); });
  while (packs->reads == 0) std::this_thread::yield();
  const auto late = cached.cache->read({pack, 0, 10}, std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
  bool patient_is_right = false;
  std::thread patient([&] { patient_is_right = cached.is_right(pack, 0, 10); });
  gate.open();
  leader.join();
  patient.join();
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ErrorCode::timeout);
  CHECK(patient_is_right);
}

TEST_CASE("an error of the store reaches all who wait and is not kept") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  packs->before = [&](const PackRequest&) { return fail(ErrorCode::io, "a bad sector"); };
  const auto failed = cached.cache->read({pack, 0, 10}, later());
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::io);
  packs->before = nullptr;
  CHECK(cached.is_right(pack, 0, 10));
  CHECK(cached.cache->read({digest_of("none"), 0, 10}, later()).error().code == ErrorCode::not_found);
}

TEST_CASE("what lies beside a range and cannot be read does not fail the range") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  NodeCacheOptions options = cache_options(dir / "cache", kQuota);
  options.fetch_first_bytes = 64 << 10;
  const Cached cached(packs, options);
  packs->before = [&](const PackRequest& request) -> Result<void> {
    if (request.offset + request.length > kBlockBytes) return fail(ErrorCode::io, "a bad sector");
    return {};
  };
  CHECK(cached.is_right(pack, 0, 1000));
  CHECK_FALSE(cached.cache->read({pack, kBlockBytes, 10}, later()));
}

TEST_CASE("ranges past the end of a pack and impossible ones are corrupt") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 100000);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  for (int round = 0; round < 2; ++round) {
    const auto code = [&](std::uint64_t offset, std::size_t length) {
      const auto bytes = cached.cache->read({pack, offset, length}, later());
      return bytes ? ErrorCode::internal : bytes.error().code;
    };
    CHECK(code(99999, 2) == ErrorCode::corrupt);
    CHECK(code(0, 100001) == ErrorCode::corrupt);
    CHECK(code(std::uint64_t{1} << 62, 10) == ErrorCode::corrupt);
    CHECK(code(std::uint64_t{1} << 52, 10) == ErrorCode::corrupt);
    CHECK(code(~std::uint64_t{0}, 10) == ErrorCode::corrupt);
    CHECK(cached.is_right(pack, 0, 100000));
    cached.cache->settle();
  }
}

TEST_CASE("a reader that refuses the bytes gets them from the store, and the cache mends") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  REQUIRE(cached.is_right(pack, 0, 100));
  cached.cache->settle();
  packs->reads = 0;
  const auto fresh = cached.cache->read({pack, 0, 100, Urgency::demand, Freshness::from_store}, later());
  REQUIRE(fresh);
  CHECK(fresh->origin == Origin::store);
  CHECK(packs->reads == 1);
  CHECK(cached.cache->stats().dropped_corrupt == 1);
  REQUIRE(cached.is_right(pack, 0, 100));
  cached.cache->settle();
  REQUIRE(cached.is_right(pack, 0, 100));
  CHECK(packs->reads == 2);
}

TEST_CASE("a directory has one owner; others read around it and take over when it ends") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  auto owner = std::make_unique<Cached>(packs, cache_options(dir / "cache", kQuota));
  REQUIRE(owner->is_right(pack, 0, 1000));
  owner->cache->settle();
  const Cached second(packs, cache_options(dir / "cache", kQuota));
  CHECK_THAT(second.cache->stats().trouble, Catch::Contains("locked"));
  CHECK(second.is_right(pack, 0, 1000));
  CHECK(second.cache->stats().uncached_reads == 1);
  owner.reset();
  while (second.cache->stats().windows == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  packs->reads = 0;
  CHECK(second.is_right(pack, 0, 1000));
  CHECK(packs->reads == 0);
}

TEST_CASE("demand goes ahead of what is fetched for later, and takes over what it needs of it") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 18 << 20);
  NodeCacheOptions options = cache_options(dir / "cache", kQuota);
  options.max_prefetch = 1;
  const Cached cached(packs, options);
  Gate gate;
  constexpr std::uint64_t kSlow = 0;  // the prefetch of this place occupies the only turn
  packs->before = [&](const PackRequest& request) -> Result<void> {
    if (request.offset == kSlow) gate.wait();
    return {};
  };
  const auto prefetch = [&](std::uint64_t offset) {
    return std::thread([&, offset] {
      [[maybe_unused]] const auto ignored = cached.cache->read({pack, offset, 100, Urgency::prefetch}, later());
    });
  };
  std::thread running = prefetch(kSlow);
  while (packs->reads == 0) std::this_thread::yield();
  std::thread waiting = prefetch(8 << 20);
  CHECK(cached.is_right(pack, 16 << 20, 100));  // demand elsewhere
  CHECK(cached.is_right(pack, 8 << 20, 100));   // demand for what the second one waits with
  CHECK(packs->reads >= 3);
  gate.open();
  running.join();
  waiting.join();
}

TEST_CASE("what is fetched ahead is read beside demand, and nothing beside what was asked for") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 18 << 20);
  NodeCacheOptions options = cache_options(dir / "cache", kQuota);
  options.fetch_first_bytes = 1 << 20;
  const Cached cached(packs, options);
  Gate gate;
  packs->before = [&](const PackRequest& request) -> Result<void> {
    if (request.offset == 0) gate.wait();
    return {};
  };
  std::thread demand([&] { CHECK(cached.is_right(pack, 0, 100)); });
  while (packs->reads == 0) std::this_thread::yield();
  for (const std::uint64_t offset : {8u << 20, (8u << 20) + (64u << 10), 4u << 20}) {
    const auto ahead = cached.cache->read({pack, offset, 64 << 10, Urgency::prefetch}, later());
    REQUIRE(ahead);
    CHECK(ahead->store_bytes == 64 << 10);
  }
  gate.open();
  demand.join();
}

}  // namespace
}  // namespace dsec::store
