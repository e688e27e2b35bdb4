// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <list>
#include <unordered_map>

#include "base/guarded.h"
#include "store/sources.h"

namespace dsec::store {

namespace {

// Open packs by digest, bounded.
class PackFiles {
 public:
  explicit PackFiles(std::size_t limit) : limit_(limit) {}

  Result<std::shared_ptr<Fd>> open(const Store& store, const Digest& pack) {
    {
      auto open = open_.lock();
      if (const auto found = open->places.find(pack); found != open->places.end()) {
        open->order.splice(open->order.begin(), open->order, found->second);
        return found->second->second;
      }
    }
    auto opened = open_file(store.pack_path(pack), O_RDONLY);
    if (!opened) return tl::unexpected(opened.error().within(fmt::format("pack {}", pack.hex())));
    auto file = std::make_shared<Fd>(std::move(*opened));
    auto open = open_.lock();
    if (open->places.find(pack) == open->places.end()) {
      open->order.emplace_front(pack, file);
      open->places.emplace(pack, open->order.begin());
      if (open->order.size() > limit_) {
        open->places.erase(open->order.back().first);
        open->order.pop_back();
      }
    }
    return file;
  }

  // After a failed read: the file may have been replaced below us (a network file system says ESTALE).
  void forget(const Digest& pack) {
    auto open = open_.lock();
    const auto found = open->places.find(pack);
    if (found == open->places.end()) return;
    open->order.erase(found->second);
    open->places.erase(found);
  }

 private:
  using Item = std::pair<Digest, std::shared_ptr<Fd>>;
  struct Open {
    std::list<Item> order;  // most recent first
    std::unordered_map<Digest, std::list<Item>::iterator> places;
  };
  std::size_t limit_;
  Guarded<Open> open_;
};

class DirectorySource final : public ChunkSource {
 public:
  DirectorySource(Store store, std::shared_ptr<io::ReadEngine> engine, std::size_t max_open_packs)
      : store_(std::move(store)), engine_(std::move(engine)), packs_(max_open_packs) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline) override {
    const format::ChunkLocation& location = request.location;
    if (location.stored_bytes > format::kMaxRecipeBytes) {
      return fail(ErrorCode::corrupt, "a chunk of {} stored bytes cannot be", location.stored_bytes);
    }
    const std::shared_ptr<Fd> file = TRY(packs_.open(store_, location.pack));
    Bytes stored(location.stored_bytes);
    if (auto read = engine_->read(*file, location.offset, stored); !read) {
      packs_.forget(location.pack);
      return tl::unexpected(read.error().within(fmt::format("pack {}", location.pack.hex())));
    }
    Chunk chunk;
    chunk.store_bytes = stored.size();
    chunk.bytes =
        location.codec == format::Codec::plain && stored.size() == location.plain_bytes
            ? std::make_shared<const Bytes>(std::move(stored))
            : std::make_shared<const Bytes>(TRY(format::decode_chunk(location.codec, stored, location.plain_bytes)));
    return chunk;
  }

 private:
  Store store_;
  std::shared_ptr<io::ReadEngine> engine_;
  PackFiles packs_;
};

}  // namespace

std::unique_ptr<ChunkSource> directory_source(Store store, std::shared_ptr<io::ReadEngine> engine,
                                              std::size_t max_open_packs) {
  return std::make_unique<DirectorySource>(std::move(store), std::move(engine), max_open_packs);
}

}  // namespace dsec::store
