// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "store/decorators.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

constexpr std::size_t kShards = 16;  // of the cache: chunks are spread by their first byte

// A cache over a source that makes up the chunk of any digest: `size` bytes, the first ones those of the digest.
struct Cached {
  Cached(std::size_t capacity, std::size_t size)
      : source(memory_cached(std::make_unique<ScriptedSource>(
                                 [size](const ChunkRequest& request, Deadline) -> Result<Chunk> {
                                   Bytes bytes(request.digest.bytes.begin(), request.digest.bytes.end());
                                   bytes.resize(size);
                                   return chunk_of(std::move(bytes));
                                 },
                                 calls),
                             capacity)) {}
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  std::unique_ptr<MemoryCache> source;
};

// Digests of one shard, so that its order can be seen.
ChunkRequest request(std::uint8_t number) {
  ChunkRequest request;
  request.digest.bytes[1] = number;
  return request;
}

Origin origin(const Cached& cached, std::uint8_t number) {
  return cached.source->fetch(request(number), later())->origin;
}

TEST_CASE("a chunk that was read lately comes from memory and costs nothing") {
  const Cached cached(kShards * 1000, 100);
  CHECK(origin(cached, 1) == Origin::store);
  const auto again = cached.source->fetch(request(1), later());
  CHECK(again->origin == Origin::memory);
  CHECK(again->store_bytes == 0);
  CHECK(again->bytes->at(1) == 1);
  CHECK(*cached.calls == 1);
}

TEST_CASE("when it is full the least recently used chunk goes") {
  const Cached cached(kShards * 300, 100);
  for (std::uint8_t number = 1; number <= 3; ++number) origin(cached, number);
  CHECK(origin(cached, 1) == Origin::memory);  // now 2 is the oldest
  CHECK(origin(cached, 4) == Origin::store);
  CHECK(origin(cached, 1) == Origin::memory);
  CHECK(origin(cached, 3) == Origin::memory);
  CHECK(origin(cached, 2) == Origin::store);
}

TEST_CASE("a chunk larger than the cache is given but not kept, and drives nothing out") {
  const Cached cached(kShards * 300, 100);
  origin(cached, 1);
  const Cached large(kShards * 300, 301);
  CHECK(origin(large, 1) == Origin::store);
  CHECK(origin(large, 1) == Origin::store);
  CHECK(origin(cached, 1) == Origin::memory);
}

TEST_CASE("a capacity of 0 keeps nothing") {
  const Cached cached(0, 100);
  CHECK(origin(cached, 1) == Origin::store);
  CHECK(origin(cached, 1) == Origin::store);
}

TEST_CASE("a chunk in use outlives its place in the cache") {
  const Cached cached(kShards * 100, 100);
  const auto held = cached.source->fetch(request(1), later());
  for (std::uint8_t number = 2; number < 50; ++number) origin(cached, number);
  CHECK(held->bytes->size() == 100);
  CHECK(held->bytes->at(1) == 1);
}

TEST_CASE("what a chunk cost that was loaded ahead is told to the first who asks") {
  const Cached cached(kShards * 1000, 100);
  REQUIRE(cached.source->load(request(1), later()));
  REQUIRE(cached.source->load(request(1), later()));
  CHECK(*cached.calls == 1);
  const auto first = cached.source->fetch(request(1), later());
  CHECK((first->origin == Origin::store && first->store_bytes == 100));
  const auto second = cached.source->fetch(request(1), later());
  CHECK((second->origin == Origin::memory && second->store_bytes == 0));
  CHECK(origin(cached, 2) == Origin::store);
  REQUIRE(cached.source->load(request(2), later()));  // it is there: nobody is told anything
  CHECK(origin(cached, 2) == Origin::memory);
}

TEST_CASE("failures are not kept") {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  const auto source = memory_cached(
      std::make_unique<ScriptedSource>(
          [](const ChunkRequest&, Deadline) -> Result<Chunk> { return fail(ErrorCode::io, "no"); }, calls),
      1 << 20);
  CHECK_FALSE(source->fetch(request(1), later()));
  CHECK_FALSE(source->fetch(request(1), later()));
  CHECK(*calls == 2);
}

TEST_CASE("the meter counts fetches, failures and bytes") {
  const auto meter = std::make_shared<FetchMeter>();
  const auto source =
      metered(std::make_unique<ScriptedSource>([](const ChunkRequest& asked, Deadline) -> Result<Chunk> {
                if (asked.digest.is_zero()) return fail(ErrorCode::io, "no");
                Chunk chunk = chunk_of(bytes_of("12345"));
                chunk.store_bytes = 3;
                return chunk;
              }),
              meter);
  CHECK(source->fetch(request(1), later()).has_value());
  CHECK(source->fetch(request(2), later()).has_value());
  CHECK_FALSE(source->fetch({}, later()));
  CHECK(meter->fetches.get() == 3);
  CHECK(meter->failures.get() == 1);
  CHECK(meter->store_bytes.get() == 6);
  CHECK(meter->plain_bytes.get() == 10);
}

}  // namespace
}  // namespace dsec::store
