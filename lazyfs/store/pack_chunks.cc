// SPDX-License-Identifier: Apache-2.0
#include "store/sources.h"

namespace dsec::store {

namespace {

class PackChunkSource final : public ChunkSource {
 public:
  explicit PackChunkSource(std::shared_ptr<PackReader> packs) : packs_(std::move(packs)) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    const format::ChunkLocation& location = request.location;
    if (location.stored_bytes > format::kMaxRecipeBytes) {
      return fail(ErrorCode::corrupt, "a chunk of {} stored bytes cannot be", location.stored_bytes);
    }
    const PackBytes stored = TRY(packs_->read(
        {location.pack, location.offset, location.stored_bytes, request.urgency, request.freshness}, deadline));
    return Chunk{TRY(decode(location, stored)), stored.origin, stored.store_bytes};
  }

 private:
  static Result<std::shared_ptr<const Bytes>> decode(const format::ChunkLocation& location, const PackBytes& stored) {
    const bool is_plain = location.codec == format::Codec::plain && stored.length == location.plain_bytes;
    if (is_plain && stored.length == stored.buffer->size()) return stored.buffer;
    return std::make_shared<const Bytes>(
        TRY(format::decode_chunk(location.codec, stored.view(), location.plain_bytes)));
  }

  std::shared_ptr<PackReader> packs_;
};

}  // namespace

std::unique_ptr<ChunkSource> pack_chunks(std::shared_ptr<PackReader> packs) {
  return std::make_unique<PackChunkSource>(std::move(packs));
}

std::unique_ptr<ChunkSource> directory_source(Store store, std::shared_ptr<io::ReadEngine> engine,
                                              std::size_t max_open_packs) {
  return pack_chunks(pack_files(std::move(store), std::move(engine), max_open_packs));
}

}  // namespace dsec::store
