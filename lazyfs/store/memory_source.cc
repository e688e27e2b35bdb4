// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "base/guarded.h"
#include "store/sources.h"

namespace dsec::store {

namespace {

class MemorySourceImpl final : public MemorySource {
 public:
  void put(const Digest& digest, Bytes plain) override {
    (*chunks_.lock())[digest] = std::make_shared<const Bytes>(std::move(plain));
  }

  Result<Chunk> fetch(const ChunkRequest& request, Deadline) override {
    auto chunks = chunks_.lock();
    const auto found = chunks->find(request.digest);
    if (found == chunks->end()) return fail(ErrorCode::not_found, "no chunk {}", request.digest.hex());
    return Chunk{found->second, Origin::store, found->second->size()};
  }

 private:
  Guarded<std::unordered_map<Digest, std::shared_ptr<const Bytes>>> chunks_;
};

}  // namespace

std::unique_ptr<MemorySource> MemorySource::create() { return std::make_unique<MemorySourceImpl>(); }

}  // namespace dsec::store
