// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "store/decorators.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A source that answers when the test opens the gate.
struct Gated {
  std::promise<void> opener;
  std::shared_future<void> gate{opener.get_future()};
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);

  std::unique_ptr<ChunkSource> source(Result<Chunk> outcome) {
    return merge_in_flight(std::make_unique<ScriptedSource>(
        [gate = gate, outcome](const ChunkRequest&, Deadline) {
          gate.wait();
          return outcome;
        },
        calls));
  }
};

ChunkRequest request_for(std::string_view content) { return {digest_of(content), {}, {}}; }

// `count` threads that ask for the same chunk; they all wait before this returns, more or less.
std::vector<std::future<Result<Chunk>>> ask(ChunkSource& source, int count, Deadline deadline) {
  std::vector<std::future<Result<Chunk>>> answers;
  for (int i = 0; i < count; ++i) {
    answers.push_back(
        std::async(std::launch::async, [&source, deadline] { return source.fetch(request_for("c"), deadline); }));
  }
  std::this_thread::sleep_for(milliseconds(50));
  return answers;
}

TEST_CASE("many threads that want one chunk cost one fetch, and only one of them pays") {
  Gated gated;
  const auto source = gated.source(chunk_of(bytes_of("c")));
  auto answers = ask(*source, 8, later());
  gated.opener.set_value();
  std::uint64_t paid = 0;
  for (auto& answer : answers) {
    const auto chunk = answer.get();
    REQUIRE(chunk);
    CHECK(*chunk->bytes == bytes_of("c"));
    paid += chunk->store_bytes;
  }
  CHECK(*gated.calls == 1);
  CHECK(paid == 1);
}

TEST_CASE("a failure is shared by those who wait, and the next one tries again") {
  Gated gated;
  const auto source = gated.source(fail(ErrorCode::io, "broken"));
  auto answers = ask(*source, 4, later());
  gated.opener.set_value();
  for (auto& answer : answers) CHECK(answer.get().error().code == ErrorCode::io);
  CHECK(*gated.calls == 1);
  CHECK_FALSE(source->fetch(request_for("c"), later()));
  CHECK(*gated.calls == 2);
}

TEST_CASE("who waits gives up at its own deadline while the fetch goes on") {
  Gated gated;
  const auto source = gated.source(chunk_of(bytes_of("c")));
  auto patient = ask(*source, 1, later());
  const auto start = Clock::now();
  const auto hasty = source->fetch(request_for("c"), start + milliseconds(30));
  REQUIRE_FALSE(hasty);
  CHECK(hasty.error().code == ErrorCode::timeout);
  CHECK(Clock::now() - start >= milliseconds(30));
  CHECK_THAT(hasty.error().message, Catch::Contains(digest_of("c").hex()));
  gated.opener.set_value();
  CHECK(patient[0].get().has_value());
  CHECK(*gated.calls == 1);
}

TEST_CASE("different chunks do not wait for each other") {
  Gated gated;
  const auto calls = std::make_shared<std::atomic<int>>(0);
  const auto source = merge_in_flight(std::make_unique<ScriptedSource>(
      [&](const ChunkRequest& request, Deadline) -> Result<Chunk> {
        if (request.digest == digest_of("c")) gated.gate.wait();
        return chunk_of(bytes_of("other"));
      },
      calls));
  auto slow = ask(*source, 1, later());
  CHECK(source->fetch(request_for("d"), later()).has_value());
  CHECK(*calls == 2);
  gated.opener.set_value();
  CHECK(slow[0].get().has_value());
}

TEST_CASE("demand does not stand behind a fetch that is ahead of need") {
  Gated gated;
  auto calls = std::make_shared<std::atomic<int>>(0);
  const auto source = merge_in_flight(std::make_unique<ScriptedSource>(
      [gate = gated.gate](const ChunkRequest& request, Deadline) {
        if (request.urgency == Urgency::prefetch) gate.wait();
        return Result<Chunk>(chunk_of(bytes_of("c")));
      },
      calls));
  ChunkRequest ahead = request_for("c");
  ahead.urgency = Urgency::prefetch;
  auto prefetched = std::async(std::launch::async, [&] { return source->fetch(ahead, later()); });
  while (*calls == 0) std::this_thread::yield();
  CHECK(source->fetch(request_for("c"), later()).has_value());
  CHECK(*calls == 2);
  gated.opener.set_value();
  CHECK(prefetched.get().has_value());
}

}  // namespace
}  // namespace dsec::store
