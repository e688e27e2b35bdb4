// SPDX-License-Identifier: Apache-2.0
#include "tree/content.h"

#include <algorithm>
#include <cerrno>

namespace dsec::tree {

using format::Recipe;
using format::RecipePart;

namespace {

std::size_t recipe_bytes(const Recipe& recipe) { return sizeof(Recipe) + recipe.parts.size() * sizeof(RecipePart); }

tl::unexpected<Error> damaged(const store::Layer& layer, const Digest& object, std::string_view why) {
  return fail(ErrorCode::corrupt, "object {} of layer {}: {}", object.hex(), layer.digest().hex(), why);
}

void tell(ReadObserver* observer, const Digest& digest) {
  if (observer != nullptr) observer->used(digest);
}

// What a map that is out of date leads to: no such pack, or something else in that place.
bool is_misplaced(const Error& error) { return error.code == ErrorCode::not_found || error.code == ErrorCode::corrupt; }

}  // namespace

ContentReader::ContentReader(std::shared_ptr<store::ChunkSource> source, std::size_t recipe_cache_bytes)
    : source_(std::move(source)), recipe_cache_bytes_(recipe_cache_bytes) {}

Result<store::Chunk> ContentReader::fetch_by(const format::LocationMapView& map, const store::Layer& layer,
                                             const Digest& digest, store::Deadline deadline) {
  const auto location = map.find(digest);
  if (!location) {
    return fail(ErrorCode::corrupt, "the location map of layer {} does not have chunk {}", layer.digest().hex(),
                digest.hex());
  }
  return source_->fetch({digest, *location, layer.digest()}, deadline);
}

Result<std::shared_ptr<const Bytes>> ContentReader::fetch(const store::Layer& layer, const Digest& digest,
                                                          store::Deadline deadline, Counter& fetched) {
  const format::LocationMapView& map = layer.map();
  auto chunk = fetch_by(map, layer, digest, deadline);
  if (!chunk && is_misplaced(chunk.error())) {
    const auto renewed = layer.refresh_map(map);
    if (renewed && *renewed) chunk = fetch_by(layer.map(), layer, digest, deadline);
  }
  if (!chunk) {
    Error error = std::move(chunk).error();
    error.sys = 0;  // it is about a file of the store: ESTALE there is not a stale node here
    return tl::unexpected(std::move(error));
  }
  fetched.add(chunk->store_bytes);
  return std::move(chunk->bytes);
}

std::shared_ptr<const Recipe> ContentReader::cached_recipe(const Digest& object) {
  auto cache = recipes_.lock();
  const auto found = cache->places.find(object);
  if (found == cache->places.end()) return nullptr;
  cache->order.splice(cache->order.begin(), cache->order, found->second);
  return found->second->second;
}

void ContentReader::cache_recipe(const Digest& object, std::shared_ptr<const Recipe> recipe) {
  auto cache = recipes_.lock();
  if (cache->places.find(object) != cache->places.end()) return;
  cache->used_bytes += recipe_bytes(*recipe);
  cache->order.emplace_front(object, std::move(recipe));
  cache->places.emplace(object, cache->order.begin());
  while (cache->used_bytes > recipe_cache_bytes_ && cache->order.size() > 1) {
    cache->used_bytes -= recipe_bytes(*cache->order.back().second);
    cache->places.erase(cache->order.back().first);
    cache->order.pop_back();
  }
}

Result<ContentReader::Object> ContentReader::open(const store::Layer& layer, const Digest& object,
                                                  store::Deadline deadline, Counter& fetched) {
  if (auto recipe = cached_recipe(object)) return Object{nullptr, std::move(recipe)};
  auto bytes = TRY(fetch(layer, object, deadline, fetched));
  if (!format::looks_like_recipe(*bytes)) return Object{std::move(bytes), nullptr};
  auto parsed = format::read_recipe(*bytes);
  if (!parsed) return damaged(layer, object, parsed.error().message);
  auto recipe = std::make_shared<const Recipe>(std::move(*parsed));
  cache_recipe(object, recipe);
  return Object{nullptr, std::move(recipe)};
}

Result<ContentReader::Object> ContentReader::open_sized(const store::Layer& layer, const Digest& object,
                                                        std::uint64_t size, store::Deadline deadline,
                                                        Counter& fetched) {
  Object opened = TRY(open(layer, object, deadline, fetched));
  if (opened.size() != size) return damaged(layer, object, "its size is not that of the file");
  return opened;
}

Result<std::uint64_t> ContentReader::size(const store::Layer& layer, const Digest& object, store::Deadline deadline,
                                          Counter& fetched, ReadObserver* observer) {
  tell(observer, object);
  return TRY(open(layer, object, deadline, fetched)).size();
}

Result<std::vector<Slice>> ContentReader::read(const store::Layer& layer, const Digest& object, std::uint64_t size,
                                               std::uint64_t offset, std::size_t length, store::Deadline deadline,
                                               Counter& fetched, ReadObserver* observer) {
  std::vector<Slice> slices;
  if (offset >= size || length == 0) return slices;
  const std::uint64_t end = offset + std::min<std::uint64_t>(length, size - offset);
  tell(observer, object);
  const Object opened = TRY(open_sized(layer, object, size, deadline, fetched));
  if (opened.whole) {
    slices.push_back({opened.whole, offset, end - offset});
    return slices;
  }
  const Recipe& recipe = *opened.recipe;
  for (std::size_t i = recipe.part_at(offset); offset < end; ++i) {
    const RecipePart& part = recipe.parts[i];
    const std::size_t inside = offset - part.offset;
    const std::size_t count = std::min<std::uint64_t>(part.bytes - inside, end - offset);
    std::shared_ptr<const Bytes> chunk;
    if (!part.is_hole()) {
      tell(observer, part.chunk);
      chunk = TRY(fetch(layer, part.chunk, deadline, fetched));
      if (chunk->size() != part.bytes) return damaged(layer, object, "a chunk has not the size that its recipe says");
    }
    slices.push_back({std::move(chunk), inside, count});
    offset += count;
  }
  return slices;
}

Result<std::uint64_t> ContentReader::seek(const store::Layer& layer, const Digest& object, std::uint64_t size,
                                          std::uint64_t offset, Seek what, store::Deadline deadline, Counter& fetched,
                                          ReadObserver* observer) {
  if (offset >= size) return tl::unexpected(Error{ErrorCode::not_found, "past the end", ENXIO});
  tell(observer, object);
  const Object opened = TRY(open_sized(layer, object, size, deadline, fetched));
  if (opened.whole) return what == Seek::data ? offset : size;
  const auto& parts = opened.recipe->parts;
  for (std::size_t i = opened.recipe->part_at(offset); i < parts.size(); ++i) {
    if (parts[i].is_hole() == (what == Seek::hole)) return std::max(offset, parts[i].offset);
  }
  if (what == Seek::hole) return size;
  return tl::unexpected(Error{ErrorCode::not_found, "no more data", ENXIO});
}

}  // namespace dsec::tree
