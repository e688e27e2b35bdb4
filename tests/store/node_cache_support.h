// SPDX-License-Identifier: Apache-2.0
// Packs that are made up, and a node cache above them whose every answer is compared.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "store/node_cache.h"
#include "store/store_support.h"

namespace dsec::test {

// Packs in memory. Counts what is read and does as it is told before each read.
class ScriptedPacks final : public store::PackReader {
 public:
  Digest add(std::uint64_t seed, std::size_t size) {
    const Digest name = digest_of(fmt::format("pack {} of {}", seed, size));
    packs_[name] = noise(seed, size);
    return name;
  }
  [[nodiscard]] const Bytes& content(const Digest& pack) const { return packs_.at(pack); }
  std::function<Result<void>(const store::PackRequest&)> before;

  Result<store::PackBytes> read(const store::PackRequest& request, store::Deadline) override {
    ++reads;
    if (before) TRY(before(request));
    const auto found = packs_.find(request.pack);
    if (found == packs_.end()) return fail(ErrorCode::not_found, "no pack {}", request.pack.hex());
    const auto part = slice(found->second, request.offset, request.length);
    if (!part) return fail(ErrorCode::corrupt, "past the end of {}", request.pack.hex());
    bytes_read += request.length;
    store::PackBytes given{std::make_shared<const Bytes>(part->begin(), part->end())};
    given.length = given.store_bytes = request.length;
    return given;
  }
  Result<std::uint64_t> size_of(const Digest& pack, store::Deadline) override {
    const auto found = packs_.find(pack);
    if (found == packs_.end()) return fail(ErrorCode::not_found, "no pack {}", pack.hex());
    return found->second.size();
  }

  std::atomic<int> reads = 0;
  std::atomic<std::uint64_t> bytes_read = 0;

 private:
  std::map<Digest, Bytes> packs_;
};

constexpr std::uint64_t kQuota = 64 << 20;  // for caches that need not evict

inline store::NodeCacheOptions cache_options(const std::filesystem::path& dir, std::uint64_t quota_bytes) {
  store::NodeCacheOptions options;
  options.dir = dir;
  options.quota_bytes = quota_bytes;
  options.reserve_bytes = 0;
  return options;
}

// The disk space of a file, which may have holes.
inline std::uint64_t disk_bytes(const std::filesystem::path& file) {
  struct stat st {};
  REQUIRE(::stat(file.c_str(), &st) == 0);
  return static_cast<std::uint64_t>(st.st_blocks) * 512;
}

// A cache above `packs`.
struct Cached {
  Cached(std::shared_ptr<ScriptedPacks> below, const store::NodeCacheOptions& options)
      : packs(std::move(below)), cache(store::NodeCache::create(packs, io::make_sync_engine(), options)) {}

  // Whether the cache gives exactly the bytes of the pack. For any thread.
  [[nodiscard]] bool is_right(const Digest& pack, std::uint64_t offset, std::size_t length) const {
    const auto bytes = cache->read({pack, offset, length}, later());
    if (!bytes) return false;
    const auto expected = slice(packs->content(pack), offset, length);
    return expected && std::equal(expected->begin(), expected->end(), bytes->view().begin(), bytes->view().end());
  }
  // Everything in steps of `step` bytes.
  [[nodiscard]] bool is_all_right(const Digest& pack, std::size_t step) const {
    const std::size_t size = packs->content(pack).size();
    for (std::size_t at = 0; at < size; at += step) {
      if (!is_right(pack, at, std::min(step, size - at))) return false;
    }
    return true;
  }

  std::shared_ptr<ScriptedPacks> packs;
  std::shared_ptr<store::NodeCache> cache;
};

}  // namespace dsec::test
