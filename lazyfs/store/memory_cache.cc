// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <list>
#include <optional>
#include <unordered_map>

#include "base/guarded.h"
#include "store/decorators.h"

namespace dsec::store {

namespace {

// Least-recently-used chunks of one part of the digest space.
class Shard {
 public:
  // As it was got, for the first who asks; from memory, for all others.
  std::optional<Chunk> find(const Digest& digest) {
    const auto found = places_.find(digest);
    if (found == places_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, found->second);
    Chunk& chunk = found->second->chunk;
    return std::exchange(chunk, {chunk.bytes, Origin::memory, 0});
  }

  void insert(const Digest& digest, Chunk chunk, std::size_t capacity) {
    if (chunk.bytes->size() > capacity || places_.find(digest) != places_.end()) return;
    used_ += chunk.bytes->size();
    order_.push_front({digest, std::move(chunk)});
    places_.emplace(digest, order_.begin());
    while (used_ > capacity) {
      used_ -= order_.back().chunk.bytes->size();
      places_.erase(order_.back().digest);
      order_.pop_back();
    }
  }

  std::uint64_t drop(const Digest& digest) {
    const auto found = places_.find(digest);
    if (found == places_.end()) return 0;
    const std::size_t bytes = found->second->chunk.bytes->size();
    used_ -= bytes;
    order_.erase(found->second);
    places_.erase(found);
    return bytes;
  }
  std::uint64_t drop_all() {
    places_.clear();
    order_.clear();
    return std::exchange(used_, 0);
  }
  [[nodiscard]] bool has(const Digest& digest) const { return places_.find(digest) != places_.end(); }
  [[nodiscard]] std::size_t used_bytes() const { return used_; }

 private:
  struct Item {
    Digest digest;
    Chunk chunk;
  };
  std::list<Item> order_;  // most recent first
  std::unordered_map<Digest, std::list<Item>::iterator> places_;
  std::size_t used_ = 0;
};

class MemoryCacheSource final : public MemoryCache {
 public:
  MemoryCacheSource(std::unique_ptr<ChunkSource> inner, std::size_t capacity)
      : inner_(std::move(inner)), shard_capacity_(capacity / kShards) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    Guarded<Shard>& shard = shard_of(request.digest);
    if (auto chunk = shard.lock()->find(request.digest)) return std::move(*chunk);
    auto chunk = inner_->fetch(request, deadline);
    if (chunk) shard.lock()->insert(request.digest, {chunk->bytes, Origin::memory, 0}, shard_capacity_);
    return chunk;
  }

  Result<void> load(const ChunkRequest& request, Deadline deadline) override {
    Guarded<Shard>& shard = shard_of(request.digest);
    if (shard.lock()->has(request.digest)) return {};
    Chunk chunk = TRY(inner_->fetch(request, deadline));
    shard.lock()->insert(request.digest, std::move(chunk), shard_capacity_);
    return {};
  }

  bool has(const Digest& digest) override { return shard_of(digest).lock()->has(digest); }
  std::uint64_t drop(const Digest& digest) override { return shard_of(digest).lock()->drop(digest); }
  std::uint64_t drop_all() override {
    std::uint64_t bytes = 0;
    for (auto& shard : shards_) bytes += shard.lock()->drop_all();
    return bytes;
  }
  std::uint64_t used_bytes() override {
    std::uint64_t bytes = 0;
    for (auto& shard : shards_) bytes += shard.lock()->used_bytes();
    return bytes;
  }

 private:
  static constexpr std::size_t kShards = 16;
  Guarded<Shard>& shard_of(const Digest& digest) { return shards_[digest.bytes[0] % kShards]; }
  std::unique_ptr<ChunkSource> inner_;
  std::size_t shard_capacity_;
  std::array<Guarded<Shard>, kShards> shards_;
};

}  // namespace

std::unique_ptr<MemoryCache> memory_cached(std::unique_ptr<ChunkSource> inner, std::size_t capacity_bytes) {
  return std::make_unique<MemoryCacheSource>(std::move(inner), capacity_bytes);
}

}  // namespace dsec::store
