// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "base/log.h"
#include "store/decorators.h"

namespace dsec::store {

namespace {

bool may_pass(ErrorCode code) {
  return code == ErrorCode::io || code == ErrorCode::unavailable || code == ErrorCode::not_found;
}

class RetrySource final : public ChunkSource {
 public:
  RetrySource(std::unique_ptr<ChunkSource> inner, RetryPolicy policy)
      : inner_(std::move(inner)), policy_(std::move(policy)) {
    if (!policy_.sleep) policy_.sleep = [](std::chrono::milliseconds pause) { std::this_thread::sleep_for(pause); };
  }

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    std::chrono::milliseconds pause = policy_.first_pause;
    for (int attempt = 1;; ++attempt) {
      auto chunk = inner_->fetch(request, deadline);
      const bool last = attempt >= policy_.attempts || std::chrono::steady_clock::now() + pause >= deadline;
      if (chunk || last || !may_pass(chunk.error().code)) return chunk;
      log(LogLevel::warn, "chunk_retry", {{"chunk", request.digest.hex()}, {"reason", chunk.error().message}});
      policy_.sleep(pause);
      pause = std::min(pause * 2, policy_.longest_pause);
    }
  }

 private:
  std::unique_ptr<ChunkSource> inner_;
  RetryPolicy policy_;
};

}  // namespace

std::unique_ptr<ChunkSource> retry(std::unique_ptr<ChunkSource> inner, RetryPolicy policy) {
  return std::make_unique<RetrySource>(std::move(inner), std::move(policy));
}

}  // namespace dsec::store
