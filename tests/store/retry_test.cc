// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "store/decorators.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;
using std::chrono::milliseconds;

// Fails `failures` times with `code`, then works. Sleeps are written down instead.
struct Retried {
  Retried(ErrorCode code, int failures, RetryPolicy policy = {}) {
    policy.sleep = [this](milliseconds pause) { pauses.push_back(pause); };
    source = retry(std::make_unique<ScriptedSource>(
                       [this, code, failures](const ChunkRequest&, Deadline) -> Result<Chunk> {
                         if (*calls <= failures) return fail(code, "try {}", calls->load());
                         return chunk_of(bytes_of("x"));
                       },
                       calls),
                   policy);
  }
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  std::vector<milliseconds> pauses;
  std::unique_ptr<ChunkSource> source;
};

TEST_CASE("failures that may pass are tried again, with pauses that double up to a limit") {
  for (const ErrorCode code : {ErrorCode::io, ErrorCode::unavailable, ErrorCode::not_found}) {
    RetryPolicy policy;
    policy.attempts = 6;
    policy.first_pause = milliseconds(50);
    policy.longest_pause = milliseconds(150);
    Retried retried(code, 5, policy);
    CHECK(retried.source->fetch({}, later()).has_value());
    CHECK(*retried.calls == 6);
    CHECK(retried.pauses ==
          std::vector{milliseconds(50), milliseconds(100), milliseconds(150), milliseconds(150), milliseconds(150)});
  }
}

TEST_CASE("after the last attempt the last error is returned") {
  Retried retried(ErrorCode::io, 100);
  const auto chunk = retried.source->fetch({}, later());
  REQUIRE_FALSE(chunk);
  CHECK(chunk.error().message == "try 4");
  CHECK(retried.pauses.size() == 3);
}

TEST_CASE("a store that is away is waited for until the deadline") {
  Retried retried(ErrorCode::unavailable, 30);
  CHECK(retried.source->fetch({}, later()).has_value());
  CHECK(*retried.calls == 31);
}

TEST_CASE("failures that stay are returned at once") {
  for (const ErrorCode code : {ErrorCode::corrupt, ErrorCode::permission, ErrorCode::invalid, ErrorCode::timeout}) {
    Retried retried(code, 1);
    CHECK(retried.source->fetch({}, later()).error().code == code);
    CHECK(*retried.calls == 1);
    CHECK(retried.pauses.empty());
  }
}

TEST_CASE("no attempt starts after the deadline, and nobody sleeps past it") {
  RetryPolicy policy;
  policy.first_pause = std::chrono::minutes(10);
  Retried retried(ErrorCode::io, 100, policy);
  CHECK(retried.source->fetch({}, later()).error().code == ErrorCode::io);
  CHECK(*retried.calls == 1);
  CHECK(retried.pauses.empty());
}

}  // namespace
}  // namespace dsec::store
