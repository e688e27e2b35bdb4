// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "store/decorators.h"

namespace dsec::store {

namespace {

class VerifySource final : public ChunkSource {
 public:
  VerifySource(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter)
      : inner_(std::move(inner)), meter_(std::move(meter)) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    std::string reason;
    std::uint64_t store_bytes = 0;
    ChunkRequest asked = request;
    for (int attempt = 0; attempt < 2; ++attempt) {
      auto chunk = inner_->fetch(asked, deadline);
      if (!chunk && chunk.error().code != ErrorCode::corrupt) return chunk;
      if (chunk) {
        store_bytes += chunk->store_bytes;
        if (sha256(*chunk->bytes) == request.digest) {
          chunk->store_bytes = store_bytes;
          return chunk;
        }
      }
      if (meter_) meter_->wrong_bytes.add();
      reason = chunk ? "its bytes do not have its digest" : chunk.error().message;
      asked.freshness = Freshness::from_store;
    }
    if (meter_) meter_->corrupt.add();
    const std::string chunk_hex = request.digest.hex();
    const std::string pack_hex = request.location.pack.hex();
    log(LogLevel::error, "chunk_corrupt",
        {{"chunk", chunk_hex},
         {"pack", pack_hex},
         {"layer", request.layer.hex()},
         {"offset", fmt::format("{}", request.location.offset)},
         {"reason", reason}});
    return fail(ErrorCode::corrupt, "chunk {} in pack {} of layer {} is damaged: {}", chunk_hex, pack_hex,
                request.layer.hex(), reason);
  }

 private:
  std::unique_ptr<ChunkSource> inner_;
  std::shared_ptr<FetchMeter> meter_;
};

}  // namespace

std::unique_ptr<ChunkSource> verify(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter) {
  return std::make_unique<VerifySource>(std::move(inner), std::move(meter));
}

}  // namespace dsec::store
