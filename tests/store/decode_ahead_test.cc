// SPDX-License-Identifier: Apache-2.0
#include "store/decode_ahead.h"

#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "store/sources.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

constexpr std::size_t kChunks = 64;
constexpr std::size_t kChunkBytes = 4096;

// A pack of chunks of one size, read through a memory cache with a thread that goes ahead.
struct Ahead {
  explicit Ahead(DecodeAheadOptions options = {16 * kChunkBytes}) {
    std::vector<Bytes> chunks;
    for (std::size_t i = 0; i < kChunks; ++i) chunks.push_back(noise(i, kChunkBytes));
    requests = put_pack(store, chunks);
    packs = pack_files(store, io::make_sync_engine(), 8);
    memory = memory_cached(verify(pack_chunks(packs)), 64 << 20);
    source = decode_ahead(memory, packs, options);
  }
  [[nodiscard]] Chunk fetch(std::size_t i) const {
    auto chunk = source->fetch(requests[i], later());
    REQUIRE(chunk);
    CHECK(sha256(*chunk->bytes) == requests[i].digest);
    return *chunk;
  }
  [[nodiscard]] std::size_t in_memory() const {
    std::size_t count = 0;
    for (const ChunkRequest& request : requests) count += memory->has(request.digest) ? 1 : 0;
    return count;
  }
  // Whether so many are there before long.
  [[nodiscard]] bool come(std::size_t wanted) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (in_memory() < wanted && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return in_memory() >= wanted;
  }

  TempDir dir;
  Store store = new_store(dir / "store");
  std::vector<ChunkRequest> requests;
  std::shared_ptr<PackReader> packs;
  std::shared_ptr<MemoryCache> memory;
  std::unique_ptr<ChunkSource> source;
};

TEST_CASE("who reads a pack forwards finds what follows in memory, and is told once what it cost") {
  const Ahead ahead;
  for (std::size_t i = 0; i < 4; ++i) CHECK(ahead.fetch(i).store_bytes == kChunkBytes);
  REQUIRE(ahead.come(20));  // a window of 16 after the four
  const Chunk first = ahead.fetch(10);
  CHECK(first.origin == Origin::store);
  CHECK(first.store_bytes == kChunkBytes);
  const Chunk second = ahead.fetch(10);
  CHECK(second.origin == Origin::memory);
  CHECK(second.store_bytes == 0);
  for (std::size_t i = 11; i < kChunks; ++i) (void)ahead.fetch(i);
  CHECK(ahead.in_memory() == kChunks);
}

TEST_CASE("who reads here and there has nothing brought ahead") {
  const Ahead ahead(DecodeAheadOptions{kChunkBytes});
  for (std::size_t i = 0; i < kChunks; i += 4) (void)ahead.fetch(i * 17 % kChunks);
  CHECK(ahead.in_memory() == kChunks / 4);
}

TEST_CASE("damage that nobody asked for fails nobody, and who asks for it is told") {
  const Ahead ahead;
  damage(ahead.store.pack_path(ahead.requests[7].location.pack), ahead.requests[7].location.offset, "damage");
  for (std::size_t i = 0; i < 6; ++i) (void)ahead.fetch(i);
  REQUIRE(ahead.come(7));
  const auto chunk = ahead.source->fetch(ahead.requests[7], later());
  REQUIRE_FALSE(chunk);
  CHECK(chunk.error().code == ErrorCode::corrupt);
  for (std::size_t i = 8; i < kChunks; ++i) (void)ahead.fetch(i);
}

TEST_CASE("a pack whose index is damaged is read without going ahead") {
  const Ahead ahead;
  const auto path = ahead.store.pack_path(ahead.requests[0].location.pack);
  damage(path, std::filesystem::file_size(path) - 100, "damage");
  for (std::size_t i = 0; i < kChunks / 2; ++i) (void)ahead.fetch(i);
  CHECK(ahead.in_memory() == kChunks / 2);
}

TEST_CASE("a pack with more chunks than may be remembered is read without going ahead") {
  const Ahead ahead(DecodeAheadOptions{16 * kChunkBytes, kChunks - 1});
  for (std::size_t i = 0; i < kChunks / 2; ++i) (void)ahead.fetch(i);
  CHECK(ahead.in_memory() == kChunks / 2);
}

TEST_CASE("it ends while it is busy, and with many readers") {
  for (int round = 0; round < 20; ++round) {
    const Ahead ahead;
    std::vector<std::thread> readers;
    for (std::size_t reader = 0; reader < 4; ++reader) {
      readers.emplace_back([&, reader] {
        for (std::size_t i = reader * 8; i < reader * 8 + 12; ++i)
          (void)ahead.source->fetch(ahead.requests[i], later());
      });
    }
    for (std::thread& reader : readers) reader.join();
  }
}

}  // namespace
}  // namespace dsec::store
