// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "store/decorators.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

ChunkRequest request_for(std::string_view content) {
  return {digest_of(content), {digest_of("pack"), 16, 5, 5, format::Codec::plain}, digest_of("layer")};
}

// Verifies a source that gives what each call is told to give.
struct Verified {
  explicit Verified(std::vector<Result<Chunk>> outcomes)
      : source(verify(std::make_unique<ScriptedSource>(
            [outcomes, next = std::make_shared<std::size_t>(0)](const ChunkRequest&, Deadline) -> Result<Chunk> {
              return outcomes[std::min((*next)++, outcomes.size() - 1)];
            },
            calls))) {}
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  std::unique_ptr<ChunkSource> source;
};

TEST_CASE("bytes with the right digest pass with one fetch") {
  const Verified verified({chunk_of(bytes_of("right"))});
  const auto chunk = verified.source->fetch(request_for("right"), later());
  REQUIRE(chunk);
  CHECK(*chunk->bytes == bytes_of("right"));
  CHECK(*verified.calls == 1);
}

TEST_CASE("wrong bytes are fetched once more, and both fetches are paid for") {
  const Verified verified({chunk_of(bytes_of("wrong")), chunk_of(bytes_of("right"))});
  const auto chunk = verified.source->fetch(request_for("right"), later());
  REQUIRE(chunk);
  CHECK(*chunk->bytes == bytes_of("right"));
  CHECK(chunk->store_bytes == 10);
  CHECK(*verified.calls == 2);
}

TEST_CASE("after wrong bytes the store itself is asked, not a copy of it") {
  std::vector<Freshness> asked;
  const auto source = verify(std::make_unique<ScriptedSource>([&](const ChunkRequest& request, Deadline) {
    asked.push_back(request.freshness);
    return Result<Chunk>(chunk_of(bytes_of(request.freshness == Freshness::from_store ? "right" : "wrong")));
  }));
  CHECK(source->fetch(request_for("right"), later()).has_value());
  CHECK(asked == std::vector{Freshness::any_copy, Freshness::from_store});
}

TEST_CASE("bytes that are wrong twice are corrupt, and the message names chunk, pack and layer") {
  const Verified verified({chunk_of(bytes_of("wrong"))});
  const auto chunk = verified.source->fetch(request_for("right"), later());
  REQUIRE_FALSE(chunk);
  CHECK(chunk.error().code == ErrorCode::corrupt);
  CHECK(*verified.calls == 2);
  for (const std::string_view part : {"right", "pack", "layer"}) {
    CHECK_THAT(chunk.error().message, Catch::Contains(digest_of(part).hex()));
  }
}

TEST_CASE("what cannot be decoded is fetched once more too") {
  const Verified verified({fail(ErrorCode::corrupt, "no LZ4 block"), chunk_of(bytes_of("right"))});
  CHECK(verified.source->fetch(request_for("right"), later()).has_value());
  const Verified twice({fail(ErrorCode::corrupt, "no LZ4 block")});
  const auto chunk = twice.source->fetch(request_for("right"), later());
  REQUIRE_FALSE(chunk);
  CHECK(chunk.error().code == ErrorCode::corrupt);
  CHECK_THAT(chunk.error().message, Catch::Contains("no LZ4 block"));
}

TEST_CASE("other failures pass through at once, as they are") {
  for (const ErrorCode code : {ErrorCode::io, ErrorCode::not_found, ErrorCode::timeout}) {
    const Verified verified({fail(code, "down below")});
    const auto chunk = verified.source->fetch(request_for("right"), later());
    REQUIRE_FALSE(chunk);
    CHECK(chunk.error().code == code);
    CHECK(chunk.error().message == "down below");
    CHECK(*verified.calls == 1);
  }
}

TEST_CASE("an empty chunk is no substitute for another") {
  const Verified verified({chunk_of({})});
  CHECK(verified.source->fetch(request_for("right"), later()).error().code == ErrorCode::corrupt);
}

}  // namespace
}  // namespace dsec::store
