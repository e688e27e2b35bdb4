// SPDX-License-Identifier: Apache-2.0
// What a node cache holds: its quota, what it evicts and forgets, and what a full one costs.
#include <fcntl.h>
#include <malloc.h>

#include <thread>

#include "store/internal/window_record.h"
#include "store/node_cache_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

TEST_CASE("the quota holds while more than it passes, and what is read often stays") {
  const TempDir dir;
  constexpr std::uint64_t kSmall = 8 << 20;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest often = packs->add(1, 1 << 20);
  const Digest once = packs->add(2, 40 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kSmall));
  for (std::uint64_t at = 0; at < 40 << 20; at += 1 << 20) {
    REQUIRE(cached.is_right(once, at, 1 << 20));
    for (int i = 0; i < 2; ++i) REQUIRE(cached.is_right(often, 0, 1000));
    cached.cache->settle();
    CHECK(cached.cache->stats().used_bytes <= kSmall);
    CHECK(disk_bytes(dir / "cache/data") <= kSmall);
  }
  const NodeCacheStats stats = cached.cache->stats();
  CHECK(stats.evicted_bytes >= 30 << 20);
  CHECK(stats.trouble == "");
  packs->reads = 0;
  REQUIRE(cached.is_right(often, 0, 1000));
  CHECK(packs->reads == 0);
}

TEST_CASE("eviction on request frees the disk, some or all of it") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 16 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  REQUIRE(cached.is_all_right(pack, 1 << 20));
  cached.cache->settle();
  CHECK(cached.cache->evict(4 << 20) == 4 << 20);
  CHECK(cached.cache->stats().used_bytes == 12 << 20);
  CHECK(cached.cache->evict(~std::uint64_t{0}) == 12 << 20);
  CHECK(disk_bytes(dir / "cache/data") < 1 << 20);
  CHECK(cached.is_all_right(pack, 1 << 20));
}

TEST_CASE("it tells which ranges are here without using them, and forgets the windows of a range") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 3 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  NodeCache& cache = *cached.cache;
  REQUIRE(cache.read({pack, 100, 1000}, later()));
  cache.settle();
  const NodeCacheStats before = cache.stats();
  CHECK(cache.has(pack, 100, 1000));
  CHECK(cache.has(pack, 0, 16 << 10));
  CHECK_FALSE(cache.has(pack, 100, 16 << 10));  // its last bytes are in the next block
  CHECK_FALSE(cache.has(pack, 2 << 20, 1));
  CHECK_FALSE(cache.has(Digest{}, 100, 1000));
  CHECK_FALSE(cache.has(pack, ~std::uint64_t{0}, 2));
  CHECK(cache.stats().hits == before.hits);
  REQUIRE(cached.is_all_right(pack, 50000));
  cache.settle();
  CHECK(cache.has(pack, 0, 3 << 20));
  cache.drop(pack, 100, 1);
  CHECK_FALSE(cache.has(pack, 100, 1000));
  CHECK(cache.has(pack, 1 << 20, 2 << 20));
  cache.evict(0);
  CHECK(cache.stats().used_bytes == 2 << 20);
  CHECK(cached.is_all_right(pack, 50000));
}

TEST_CASE("readers get right bytes while everything is evicted under them") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 12 << 20);
  const Cached cached(packs, cache_options(dir / "cache", 6 << 20));
  std::atomic<int> wrong = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 6; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 400; ++i) {
        const std::size_t length = 1 + random() % 100000;
        if (!cached.is_right(pack, random() % ((12 << 20) - length), length)) ++wrong;
      }
    });
  }
  std::thread evictor([&] {
    std::mt19937_64 random(99);
    while (!done) {
      cached.cache->evict(random() % 3 == 0 ? ~std::uint64_t{0} : random() % (4 << 20));
      std::this_thread::yield();
    }
  });
  for (std::thread& reader : readers) reader.join();
  done = true;
  evictor.join();
  CHECK(wrong == 0);
  CHECK(cached.cache->stats().dropped_corrupt == 0);
}

TEST_CASE("a cache of tens of thousands of windows opens with all of them and little memory") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  { const Cached cached(packs, cache_options(dir / "cache", std::uint64_t{1} << 40)); }
  constexpr std::uint32_t kWindows = 30000;
  Bytes index(std::size_t{kWindows} * kWindowRecordBytes);
  for (std::uint32_t i = 0; i < kWindows; ++i) {
    WindowRecord record{digest_of("another"), kWindows * kWindowBytes, i, 0, {}};
    record.blocks = BlockSums(~std::uint64_t{0}, [](unsigned) { return 1u; });
    const auto bytes = write_window_record(record);
    std::copy(bytes.begin(), bytes.end(), index.begin() + std::size_t{i} * kWindowRecordBytes);
  }
  const auto file = open_file(dir / "cache/index", O_WRONLY | O_APPEND);
  REQUIRE(file);
  REQUIRE(write_all(*file, index));
  index = {};
  const std::size_t before = ::mallinfo2().uordblks;
  const auto begin = std::chrono::steady_clock::now();
  const Cached cached(packs, cache_options(dir / "cache", std::uint64_t{1} << 40));
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  const std::size_t each = (::mallinfo2().uordblks - before) / kWindows;
  CHECK(cached.cache->stats().windows == kWindows);
  CHECK(each <= 400);  // 4 bytes for each of the 64 blocks, and the tables
  WARN("opened " << kWindows << " windows in " << took.count() << " us, " << each << " bytes of memory each");
  CHECK(cached.is_right(pack, 0, 1000));
}

}  // namespace
}  // namespace dsec::store
