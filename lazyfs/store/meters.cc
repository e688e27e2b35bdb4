// SPDX-License-Identifier: Apache-2.0
#include "store/meters.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "base/guarded.h"

namespace dsec::store {

namespace {

// A set of digests by their first 64 bits, which is good enough to count. Open addressing, at most three quarters full.
class Touched {
 public:
  // True when it is new.
  bool insert(const Digest& digest) {
    std::uint64_t key = 0;
    std::memcpy(&key, digest.bytes.data(), sizeof key);
    if (key == 0) key = 1;
    if (count_ + count_ / 3 >= places_.size()) {
      if (count_ >= OriginMeter::kMaxTouched) return false;
      grow();
    }
    return put(key);
  }

 private:
  void grow() {
    std::vector<std::uint64_t> old(places_.empty() ? 1024 : places_.size() * 2);
    std::swap(old, places_);
    count_ = 0;
    for (const std::uint64_t key : old) {
      if (key != 0) put(key);
    }
  }
  bool put(std::uint64_t key) {
    std::size_t at = key & (places_.size() - 1);
    while (places_[at] != 0 && places_[at] != key) at = (at + 1) & (places_.size() - 1);
    if (places_[at] == key) return false;
    places_[at] = key;
    ++count_;
    return true;
  }

  std::vector<std::uint64_t> places_;  // a power of two, 0: free
  std::size_t count_ = 0;
};

class OriginSource final : public ChunkSource {
 public:
  OriginSource(std::shared_ptr<ChunkSource> inner, std::shared_ptr<OriginMeter> meter)
      : inner_(std::move(inner)), meter_(std::move(meter)) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    auto chunk = inner_->fetch(request, deadline);
    if (!chunk) {
      meter_->failures.add();
      if (chunk.error().code == ErrorCode::timeout) meter_->timeouts.add();
      return chunk;
    }
    count(request, *chunk);
    return chunk;
  }

 private:
  void count(const ChunkRequest& request, const Chunk& chunk) {
    const auto origin = static_cast<std::size_t>(chunk.origin);
    OriginMeter::Share& share = meter_->shares[origin];
    share.chunks.add();
    share.bytes.add(chunk.bytes->size());
    // What is in memory has been given to a reader before.
    const bool is_new = chunk.origin != Origin::memory && touched_.lock()->insert(request.digest);
    if (chunk.store_bytes > 0) meter_->store_bytes.add(chunk.store_bytes);
    if (is_new) {
      meter_->touched_chunks.add();
      meter_->touched_bytes.add(request.location.stored_bytes);
    }
    if (ReadCost* const cost = CostScope::current(); cost != nullptr) {
      ++cost->shares[origin].chunks;
      cost->shares[origin].bytes += chunk.bytes->size();
      cost->store_bytes += chunk.store_bytes;
      if (is_new) cost->touched_bytes += request.location.stored_bytes;
    }
  }

  std::shared_ptr<ChunkSource> inner_;
  std::shared_ptr<OriginMeter> meter_;
  Guarded<Touched> touched_;
};

class MeteredPacks final : public PackReader {
 public:
  MeteredPacks(std::shared_ptr<PackReader> inner, std::shared_ptr<PackMeter> meter)
      : inner_(std::move(inner)), meter_(std::move(meter)) {}

  Result<PackBytes> read(const PackRequest& request, Deadline deadline) override {
    const auto start = std::chrono::steady_clock::now();
    auto bytes = inner_->read(request, deadline);
    const auto urgency = static_cast<std::size_t>(request.urgency);
    if (!bytes) {
      meter_->failures[urgency].add();
      return bytes;
    }
    const auto origin = static_cast<std::size_t>(bytes->origin);
    PackMeter::Share& share = meter_->shares[urgency][origin];
    share.reads.add();
    share.bytes.add(bytes->length);
    share.store_bytes.add(bytes->store_bytes);
    if (request.urgency == Urgency::demand) meter_->took[origin].add(std::chrono::steady_clock::now() - start);
    return bytes;
  }
  Result<std::uint64_t> size_of(const Digest& pack, Deadline deadline) override {
    return inner_->size_of(pack, deadline);
  }

 private:
  std::shared_ptr<PackReader> inner_;
  std::shared_ptr<PackMeter> meter_;
};

}  // namespace

std::unique_ptr<ChunkSource> metered_by_origin(std::shared_ptr<ChunkSource> inner, std::shared_ptr<OriginMeter> meter) {
  return std::make_unique<OriginSource>(std::move(inner), std::move(meter));
}

std::shared_ptr<PackReader> metered_packs(std::shared_ptr<PackReader> inner, std::shared_ptr<PackMeter> meter) {
  return std::make_shared<MeteredPacks>(std::move(inner), std::move(meter));
}

}  // namespace dsec::store
