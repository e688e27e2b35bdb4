// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "store/decorators.h"

namespace dsec::store {

namespace {

class VerifySource final : public ChunkSource {
 public:
  explicit VerifySource(std::unique_ptr<ChunkSource> inner) : inner_(std::move(inner)) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    std::string reason;
    std::uint64_t store_bytes = 0;
    for (int attempt = 0; attempt < 2; ++attempt) {
      auto chunk = inner_->fetch(request, deadline);
      if (!chunk && chunk.error().code != ErrorCode::corrupt) return chunk;
      if (chunk) {
        store_bytes += chunk->store_bytes;
        if (sha256(*chunk->bytes) == request.digest) {
          chunk->store_bytes = store_bytes;
          return chunk;
        }
      }
      reason = chunk ? "its bytes do not have its digest" : chunk.error().message;
    }
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
};

}  // namespace

std::unique_ptr<ChunkSource> verify(std::unique_ptr<ChunkSource> inner) {
  return std::make_unique<VerifySource>(std::move(inner));
}

}  // namespace dsec::store
