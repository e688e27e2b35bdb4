// SPDX-License-Identifier: Apache-2.0
#include "store/decorators.h"

namespace dsec::store {

namespace {

class MeterSource final : public ChunkSource {
 public:
  MeterSource(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter)
      : inner_(std::move(inner)), meter_(std::move(meter)) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    auto chunk = inner_->fetch(request, deadline);
    meter_->fetches.add();
    if (!chunk) {
      meter_->failures.add();
      return chunk;
    }
    meter_->store_bytes.add(chunk->store_bytes);
    meter_->plain_bytes.add(chunk->bytes->size());
    return chunk;
  }

 private:
  std::unique_ptr<ChunkSource> inner_;
  std::shared_ptr<FetchMeter> meter_;
};

}  // namespace

std::unique_ptr<ChunkSource> metered(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter) {
  return std::make_unique<MeterSource>(std::move(inner), std::move(meter));
}

}  // namespace dsec::store
