// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "base/log.h"
#include "base/waiting.h"
#include "store/decorators.h"
#include "store/read_cost.h"

namespace dsec::store {

namespace {

bool may_pass(ErrorCode code) {
  return code == ErrorCode::io || code == ErrorCode::unavailable || code == ErrorCode::not_found;
}

class RetrySource final : public ChunkSource {
 public:
  RetrySource(std::unique_ptr<ChunkSource> inner, RetryPolicy policy, std::shared_ptr<FetchMeter> meter)
      : inner_(std::move(inner)), policy_(std::move(policy)), meter_(std::move(meter)) {
    if (!policy_.sleep) policy_.sleep = [](std::chrono::milliseconds pause) { std::this_thread::sleep_for(pause); };
  }

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    std::chrono::milliseconds pause = policy_.first_pause;
    for (int attempt = 1;; ++attempt) {
      auto chunk = inner_->fetch(request, deadline);
      if (chunk || !may_pass(chunk.error().code)) return chunk;
      const bool has_tries = attempt < policy_.attempts || chunk.error().code == ErrorCode::unavailable;
      if (!has_tries || std::chrono::steady_clock::now() + pause >= deadline) return chunk;
      log(LogLevel::warn, "chunk_retry", {{"chunk", request.digest.hex()}, {"reason", chunk.error().message}});
      about_to_wait();
      if (meter_) meter_->retries.add();
      const StageScope stage(Stage::retry);
      policy_.sleep(pause);
      pause = std::min(pause * 2, policy_.longest_pause);
    }
  }

 private:
  std::unique_ptr<ChunkSource> inner_;
  RetryPolicy policy_;
  std::shared_ptr<FetchMeter> meter_;
};

}  // namespace

std::unique_ptr<ChunkSource> retry(std::unique_ptr<ChunkSource> inner, RetryPolicy policy,
                                   std::shared_ptr<FetchMeter> meter) {
  return std::make_unique<RetrySource>(std::move(inner), std::move(policy), std::move(meter));
}

}  // namespace dsec::store
