// SPDX-License-Identifier: Apache-2.0
// What every ChunkSource promises, whatever it is made of (store/chunk_source.h).
#include <catch2/catch.hpp>
#include <thread>

#include "format/recipe.h"
#include "store/decorators.h"
#include "store/node_cache.h"
#include "store/sources.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

using Stack = std::unique_ptr<ChunkSource> (*)(std::unique_ptr<ChunkSource>);

struct NamedStack {
  const char* name;
  Stack wrap;
};

RetryPolicy no_sleep() {
  RetryPolicy policy;
  policy.sleep = [](std::chrono::milliseconds) {};
  return policy;
}

const NamedStack kStacks[] = {
    {"bare", [](std::unique_ptr<ChunkSource> inner) { return inner; }},
    {"verify", [](std::unique_ptr<ChunkSource> inner) { return verify(std::move(inner)); }},
    {"merge", [](std::unique_ptr<ChunkSource> inner) { return merge_in_flight(std::move(inner)); }},
    {"retry", [](std::unique_ptr<ChunkSource> inner) { return retry(std::move(inner), no_sleep()); }},
    {"meter",
     [](std::unique_ptr<ChunkSource> inner) { return metered(std::move(inner), std::make_shared<FetchMeter>()); }},
    {"memory cache",
     [](std::unique_ptr<ChunkSource> inner) -> std::unique_ptr<ChunkSource> {
       return memory_cached(std::move(inner), 16 << 20);
     }},
    {"memory cache of nothing",
     [](std::unique_ptr<ChunkSource> inner) -> std::unique_ptr<ChunkSource> {
       return memory_cached(std::move(inner), 0);
     }},
    {"all",
     [](std::unique_ptr<ChunkSource> inner) -> std::unique_ptr<ChunkSource> {
       inner = metered(verify(retry(std::move(inner), no_sleep())), std::make_shared<FetchMeter>());
       return memory_cached(merge_in_flight(std::move(inner)), 16 << 20);
     }},
};

// Every size and codec that matters.
std::vector<Bytes> contents() {
  std::vector<Bytes> all{bytes_of("x"),  bytes_of("hello"),   Bytes(4096, 0),
                         noise(1, 4095), noise(2, 256 << 10), Bytes(256 << 10, 'z')};
  format::Recipe recipe;
  format::add_chunk(recipe, digest_of("a"), 70000);
  format::add_hole(recipe, 1 << 20);
  all.push_back(format::write_recipe(recipe));
  for (std::uint64_t seed = 10; seed < 40; ++seed) all.push_back(noise(seed, 100 + seed * 37));
  return all;
}

// A source with contents(), and the requests for them.
struct Filled {
  std::unique_ptr<ChunkSource> source;
  std::vector<ChunkRequest> requests;
};

Filled fill(const std::string& kind, const TempDir& dir, Stack wrap) {
  const Store store = new_store(dir / "store");
  Filled filled{nullptr, put_pack(store, contents())};
  if (kind == "memory") {
    auto memory = MemorySource::create();
    for (const Bytes& bytes : contents()) memory->put(sha256(bytes), bytes);
    filled.source = wrap(std::move(memory));
  } else if (kind == "directory") {
    filled.source = wrap(directory_source(store, io::make_sync_engine(), 2));
  } else {
    NodeCacheOptions options;
    options.dir = dir / "cache";
    options.reserve_bytes = 0;
    if (kind == "small node cache") options.quota_bytes = 4 << 20;
    auto uring = io::make_uring_engine({4, 1});
    std::shared_ptr<io::ReadEngine> engine = io::make_sync_engine();
    if (kind == "node cache and io_uring" && uring) engine = std::move(*uring);
    filled.source = wrap(pack_chunks(NodeCache::create(pack_files(store, engine, 2), engine, options)));
  }
  return filled;
}

const char* const kKinds[] = {"memory", "directory", "node cache", "small node cache", "node cache and io_uring"};

// Runs `check` over every implementation in every stack.
template <typename Check>
void for_every_source(Check check) {
  for (const std::string kind : kKinds) {
    for (const NamedStack& stack : kStacks) {
      INFO(kind << " below " << stack.name);
      const TempDir dir;
      Filled filled = fill(kind, dir, stack.wrap);
      check(filled);
    }
  }
}

TEST_CASE("every source gives exactly what was put, also the second time") {
  for_every_source([](Filled& filled) {
    const std::vector<Bytes> expected = contents();
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto chunk = filled.source->fetch(filled.requests[i], later());
        REQUIRE(chunk);
        CHECK(*chunk->bytes == expected[i]);
        CHECK((chunk->origin == Origin::store || chunk->store_bytes == 0));
        CHECK((round > 0 || i > 0 || chunk->store_bytes > 0));
      }
    }
  });
}

TEST_CASE("a chunk that no pack has is not found by any source") {
  for_every_source([](Filled& filled) {
    ChunkRequest absent = filled.requests[0];
    absent.digest = digest_of("absent");
    absent.location.pack = digest_of("no such pack");
    const auto chunk = filled.source->fetch(absent, later());
    REQUIRE_FALSE(chunk);
    CHECK(chunk.error().code == ErrorCode::not_found);
  });
}

TEST_CASE("with a deadline that has passed every source gives the right bytes or a timeout") {
  for_every_source([](Filled& filled) {
    const auto chunk =
        filled.source->fetch(filled.requests[1], std::chrono::steady_clock::now() - std::chrono::seconds(1));
    if (chunk)
      CHECK(*chunk->bytes == contents()[1]);
    else
      CHECK(chunk.error().code == ErrorCode::timeout);
  });
}

TEST_CASE("many threads at once get each its own chunk from every source") {
  for_every_source([](Filled& filled) {
    const std::vector<Bytes> expected = contents();
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 3 * expected.size(); ++i) {
          const std::size_t which = (i * (t + 1)) % expected.size();
          const auto chunk = filled.source->fetch(filled.requests[which], later());
          if (!chunk || *chunk->bytes != expected[which]) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  });
}

TEST_CASE("a pack that ends early is corrupt, never zeros") {
  for (const std::string kind : {"directory", "node cache"})
    for (const NamedStack& stack : kStacks) {
      INFO(kind << " below " << stack.name);
      const TempDir dir;
      Filled filled = fill(kind, dir, stack.wrap);
      const Store store = new_store(dir / "store");
      std::filesystem::resize_file(store.pack_path(filled.requests[0].location.pack), 18);
      const auto chunk = filled.source->fetch(filled.requests[4], later());
      REQUIRE_FALSE(chunk);
      CHECK(chunk.error().code == ErrorCode::corrupt);
      CHECK_THAT(chunk.error().message, Catch::Contains(filled.requests[4].location.pack.hex()));
    }
}

TEST_CASE("locations that cannot be are corrupt") {
  const TempDir dir;
  Filled filled = fill("directory", dir, kStacks[0].wrap);
  const auto code_of = [&](auto change) {
    ChunkRequest request = filled.requests[5];  // compressed
    change(request.location);
    const auto chunk = filled.source->fetch(request, later());
    return chunk ? ErrorCode::internal : chunk.error().code;
  };
  CHECK(code_of([](auto& l) { l.offset = std::uint64_t{1} << 62; }) == ErrorCode::corrupt);
  CHECK(code_of([](auto& l) { l.stored_bytes = ~0u; }) == ErrorCode::corrupt);
  CHECK(code_of([](auto& l) { l.plain_bytes += 1; }) == ErrorCode::corrupt);
  CHECK(code_of([](auto& l) { l.codec = format::Codec::plain; }) == ErrorCode::corrupt);
}

TEST_CASE("a directory source works with more packs than it may keep open, and sees a pack that comes back") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  std::vector<ChunkRequest> requests;
  for (std::uint64_t seed = 0; seed < 8; ++seed) requests.push_back(put_pack(store, {noise(seed, 1000)})[0]);
  const auto source = directory_source(store, io::make_sync_engine(), 2);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const auto chunk = source->fetch(requests[seed], later());
      REQUIRE(chunk);
      CHECK(*chunk->bytes == noise(seed, 1000));
    }
  }
  const auto pack = store.pack_path(requests[0].location.pack);
  std::filesystem::rename(pack, dir / "aside");
  CHECK(source->fetch(requests[0], later()).error().code == ErrorCode::not_found);
  std::filesystem::rename(dir / "aside", pack);
  CHECK(source->fetch(requests[0], later()).has_value());
}

}  // namespace
}  // namespace dsec::store
