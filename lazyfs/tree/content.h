// SPDX-License-Identifier: Apache-2.0
// The bytes of files: from an object digest to slices of verified chunks.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/guarded.h"
#include "base/metrics.h"
#include "base/result.h"
#include "format/location_map.h"
#include "format/recipe.h"
#include "store/chunk_source.h"
#include "store/layer_cache.h"
#include "tree/read_observers.h"

namespace dsec::tree {

// A piece of a chunk, or zeros of a hole. Keeps the chunk alive.
struct Slice {
  std::shared_ptr<const Bytes> chunk;  // null for a hole
  std::size_t offset = 0;
  std::size_t length = 0;
  // The bytes; only for what is no hole.
  [[nodiscard]] ByteView view() const { return ByteView(*chunk).subspan(offset, length); }
};

// Reads ranges of objects through a verifying chunk source. Parsed recipes are cached, bounded by their size.
// Thread-safe.
class ContentReader {
 public:
  ContentReader(std::shared_ptr<store::ChunkSource> source, std::size_t recipe_cache_bytes);

  // Bytes [offset, offset + length) of an object of `size` bytes, cut at its end: the slices lie back to back and cover
  // exactly that range. `fetched` is raised by the bytes that came from the store. Errors are those of the chunk
  // source, and `corrupt` when recipe, chunks and size do not fit each other, which names the object and the layer.
  // `observer` is told what is used, also when that fails; null is nobody.
  Result<std::vector<Slice>> read(const store::Layer& layer, const Digest& object, std::uint64_t size,
                                  std::uint64_t offset, std::size_t length, store::Deadline deadline, Counter& fetched,
                                  ReadObserver* observer = nullptr);

  // How many bytes an object has: what its content says, not what a layer says of it. Fetches the content of an object
  // of one chunk and the recipe of others, both of which the next read needs.
  Result<std::uint64_t> size(const store::Layer& layer, const Digest& object, store::Deadline deadline,
                             Counter& fetched, ReadObserver* observer = nullptr);

  // The first data (or hole) at or after `offset`, as lseek(2) with SEEK_DATA (SEEK_HOLE); `not_found` (ENXIO) when
  // there is no more data.
  enum class Seek { data, hole };
  Result<std::uint64_t> seek(const store::Layer& layer, const Digest& object, std::uint64_t size, std::uint64_t offset,
                             Seek what, store::Deadline deadline, Counter& fetched, ReadObserver* observer = nullptr);

  // The chunks of an object's content and where they are, in order. Asks for the recipe of an object of several chunks,
  // and for nothing of one whose single chunk has the object's size.
  Result<std::vector<format::MapEntry>> chunks(const store::Layer& layer, const Digest& object, std::uint64_t size,
                                               store::Deadline deadline, Counter& fetched);

 private:
  // What the bytes named by an object digest turned out to be.
  struct Object {
    std::shared_ptr<const Bytes> whole;            // the content itself
    std::shared_ptr<const format::Recipe> recipe;  // or its recipe
    [[nodiscard]] std::uint64_t size() const { return whole ? whole->size() : recipe->size; }
  };
  Result<Object> open(const store::Layer& layer, const Digest& object, store::Deadline deadline, Counter& fetched);
  Result<Object> open_sized(const store::Layer& layer, const Digest& object, std::uint64_t size,
                            store::Deadline deadline, Counter& fetched);
  Result<store::Chunk> fetch_by(const format::LocationMapView& map, const store::Layer& layer, const Digest& digest,
                                store::Deadline deadline);
  // Through the newest map: a pack that is gone or another one makes it look whether the store was repacked.
  Result<std::shared_ptr<const Bytes>> fetch(const store::Layer& layer, const Digest& digest, store::Deadline deadline,
                                             Counter& fetched);

  // Least recently used out first.
  struct RecipeCache {
    using Item = std::pair<Digest, std::shared_ptr<const format::Recipe>>;
    std::list<Item> order;
    std::unordered_map<Digest, std::list<Item>::iterator> places;
    std::size_t used_bytes = 0;
  };
  std::shared_ptr<const format::Recipe> cached_recipe(const Digest& object);
  void cache_recipe(const Digest& object, std::shared_ptr<const format::Recipe> recipe);

  std::shared_ptr<store::ChunkSource> source_;
  std::size_t recipe_cache_bytes_;
  Guarded<RecipeCache> recipes_;
};

}  // namespace dsec::tree
