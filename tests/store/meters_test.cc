// SPDX-License-Identifier: Apache-2.0
// Counting by origin, the costs of a thread's request, and what it waits for.
#include <catch2/catch.hpp>
#include <thread>

#include "store/decorators.h"
#include "store/meters.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

ChunkRequest request(std::uint8_t number, std::uint32_t stored_bytes) {
  ChunkRequest request;
  request.digest.bytes[0] = number;
  request.location.stored_bytes = stored_bytes;
  return request;
}

// A memory cache of chunks of 100 bytes, counted; the ones above 200 cannot be had in time.
struct Counted {
  Counted() {
    const auto script = [](const ChunkRequest& asked, Deadline) -> Result<Chunk> {
      if (asked.digest.bytes[0] > 200) return fail(ErrorCode::timeout, "too late");
      return chunk_of(Bytes(100));
    };
    auto memory = memory_cached(std::make_unique<ScriptedSource>(script), 1 << 20);
    source = metered_by_origin(std::move(memory), meter);
  }
  std::shared_ptr<OriginMeter> meter = std::make_shared<OriginMeter>();
  std::unique_ptr<ChunkSource> source;
};

TEST_CASE("chunks are counted by where they came from, and touched once however often they are needed") {
  const Counted counted;
  for (int i = 0; i < 3; ++i) REQUIRE(counted.source->fetch(request(1, 60), later()));
  REQUIRE(counted.source->fetch(request(2, 70), later()));
  const auto& shares = counted.meter->shares;
  CHECK(shares[static_cast<std::size_t>(Origin::memory)].chunks.get() == 2);
  CHECK(shares[static_cast<std::size_t>(Origin::memory)].bytes.get() == 200);
  CHECK(shares[static_cast<std::size_t>(Origin::store)].chunks.get() == 2);
  CHECK(counted.meter->store_bytes.get() == 200);
  CHECK(counted.meter->touched_chunks.get() == 2);
  CHECK(counted.meter->touched_bytes.get() == 130);
}

TEST_CASE("a chunk that left memory and is fetched again is not touched anew") {
  auto meter = std::make_shared<OriginMeter>();
  const auto source = metered_by_origin(
      std::make_unique<ScriptedSource>([](const auto&, Deadline) -> Result<Chunk> { return chunk_of(Bytes(10)); }),
      meter);
  for (int i = 0; i < 2; ++i) REQUIRE(source->fetch(request(1, 5), later()));
  CHECK(meter->store_bytes.get() == 20);
  CHECK(meter->touched_bytes.get() == 5);
}

TEST_CASE("failures are counted, and those of the deadline among them") {
  const Counted counted;
  CHECK_FALSE(counted.source->fetch(request(201, 1), later()));
  CHECK(counted.meter->failures.get() == 1);
  CHECK(counted.meter->timeouts.get() == 1);
  CHECK(counted.meter->touched_chunks.get() == 0);
}

TEST_CASE("what a thread fetches in a scope is the scope's cost and the outer one's, of no other thread") {
  const Counted counted;
  CHECK(CostScope::current() == nullptr);
  const CostScope outer;
  {
    const CostScope inner;
    REQUIRE(counted.source->fetch(request(1, 60), later()));
    CHECK(inner.cost().of(Origin::store).chunks == 1);
    CHECK(inner.cost().store_bytes == 100);
    CHECK(outer.cost().store_bytes == 0);
    std::thread([&] { REQUIRE(counted.source->fetch(request(2, 60), later())); }).join();
  }
  REQUIRE(counted.source->fetch(request(1, 60), later()));
  CHECK(outer.cost().of(Origin::store).chunks == 1);
  CHECK(outer.cost().of(Origin::memory).chunks == 1);
  CHECK(outer.cost().touched_bytes == 60);
}

TEST_CASE("a stage is shown while its scope lives, and nowhere without a board") {
  { const StageScope unseen(Stage::store); }
  std::atomic<Stage> shown = Stage::working;
  const StageBoard board(shown);
  {
    const StageScope store(Stage::store);
    CHECK(shown == Stage::store);
    const StageScope disk(Stage::disk);
    CHECK(shown == Stage::disk);
  }
  CHECK(shown == Stage::working);
}

TEST_CASE("wrong bytes, chunks given up, retries and merged waits are counted where they happen") {
  auto meter = std::make_shared<FetchMeter>();
  int failures = 2;
  const auto script = [&failures](const ChunkRequest&, Deadline) -> Result<Chunk> {
    if (failures-- > 0) return fail(ErrorCode::io, "not now");
    return chunk_of(bytes_of("other"));
  };
  RetryPolicy policy;
  policy.sleep = [](std::chrono::milliseconds) {};
  auto source = retry(std::make_unique<ScriptedSource>(script), policy, meter);
  source = merge_in_flight(verify(std::move(source), meter), meter);
  CHECK(source->fetch(request(1, 5), later()).error().code == ErrorCode::corrupt);
  CHECK(meter->retries.get() == 2);
  CHECK(meter->wrong_bytes.get() == 2);
  CHECK(meter->corrupt.get() == 1);
  CHECK(meter->merged_waits.get() == 0);
}

TEST_CASE("a memory cache says what it has and forgets what it is told to") {
  const auto cache = memory_cached(
      std::make_unique<ScriptedSource>([](const auto&, Deadline) -> Result<Chunk> { return chunk_of(Bytes(10)); }),
      1 << 20);
  for (std::uint8_t number = 1; number <= 3; ++number) REQUIRE(cache->fetch(request(number, 1), later()));
  CHECK(cache->used_bytes() == 30);
  CHECK(cache->has(request(1, 1).digest));
  CHECK(cache->drop(request(1, 1).digest) == 10);
  CHECK(cache->drop(request(1, 1).digest) == 0);
  CHECK_FALSE(cache->has(request(1, 1).digest));
  CHECK(cache->drop_all() == 20);
  CHECK(cache->used_bytes() == 0);
  CHECK(cache->fetch(request(2, 1), later())->origin == Origin::store);
}

class FixedPacks final : public PackReader {
 public:
  Result<PackBytes> read(const PackRequest& request, Deadline) override {
    if (request.offset == 13) return fail(ErrorCode::io, "no");
    const auto buffer = std::make_shared<const Bytes>(request.length);
    const bool cached = request.offset == 0;
    return PackBytes{buffer, 0, request.length, cached ? Origin::cache : Origin::store, cached ? 0 : 4096u};
  }
  Result<std::uint64_t> size_of(const Digest&, Deadline) override { return 77; }
};

TEST_CASE("ranges of packs are counted by urgency and origin, and demand is timed") {
  auto meter = std::make_shared<PackMeter>();
  const auto packs = metered_packs(std::make_shared<FixedPacks>(), meter);
  REQUIRE(packs->read({{}, 0, 10}, later()));
  REQUIRE(packs->read({{}, 1, 10}, later()));
  REQUIRE(packs->read({{}, 1, 20, Urgency::prefetch}, later()));
  CHECK_FALSE(packs->read({{}, 13, 1, Urgency::prefetch}, later()));
  CHECK(meter->of(Urgency::demand, Origin::cache).bytes.get() == 10);
  CHECK(meter->of(Urgency::demand, Origin::store).store_bytes.get() == 4096);
  CHECK(meter->of(Urgency::prefetch, Origin::store).bytes.get() == 20);
  CHECK(meter->failures[static_cast<std::size_t>(Urgency::prefetch)].get() == 1);
  CHECK(meter->took[static_cast<std::size_t>(Origin::store)].snapshot().count == 1);
  CHECK(packs->size_of({}, later()) == 77);
}

}  // namespace
}  // namespace dsec::store
