// SPDX-License-Identifier: Apache-2.0
#include "tree/tree_support.h"

#include <catch2/catch.hpp>
#include <set>

#include "base/text.h"
#include "format/dump.h"
#include "format/erofs.h"
#include "format/location_map.h"
#include "format/recipe.h"

namespace dsec::tree::test {

World::World()
    : store_(new_store(dir_ / "store")),
      cache_(*store::LayerCache::open(store_, dir_ / "cache")),
      slots_(std::make_unique<SlotTable>()),
      source_(store::MemorySource::create()) {}

Digest World::content(ByteView bytes, std::size_t part) {
  const auto put = [&](ByteView plain) {
    const Digest digest = sha256(plain);
    source_->put(digest, Bytes(plain.begin(), plain.end()));
    const auto size = static_cast<std::uint32_t>(plain.size());
    entries_.push_back({digest, {digest_of("pack"), format::kPackHeaderBytes, size, size, format::Codec::plain}});
    return digest;
  };
  if (bytes.size() <= part) return put(bytes);
  format::Recipe recipe;
  while (!bytes.empty()) {
    const ByteView chunk = bytes.first(std::min(part, bytes.size()));
    const bool zero = std::all_of(chunk.begin(), chunk.end(), [](std::uint8_t byte) { return byte == 0; });
    if (zero)
      format::add_hole(recipe, chunk.size());
    else
      format::add_chunk(recipe, put(chunk), chunk.size());
    bytes = bytes.subspan(chunk.size());
  }
  return put(format::write_recipe(recipe));
}

std::shared_ptr<const store::Layer> World::layer(std::string_view lines) {
  constexpr std::string_view kContent = " content=";
  std::string dump = "/ directory mode=0755\n";
  for (std::string_view line : split(lines, '\n')) {
    const std::size_t at = line.find(kContent);
    if (at == std::string_view::npos) {
      dump.append(line).append("\n");
      continue;
    }
    std::string_view rest = line.substr(at + kContent.size());
    const std::string_view text = rest.substr(0, rest.find(' '));
    rest.remove_prefix(text.size());
    dump +=
        fmt::format("{} size={} object={}{}\n", line.substr(0, at), text.size(), content(as_bytes(text)).hex(), rest);
  }
  const auto tree = format::parse_dump(dump);
  if (!tree) FAIL(tree.error().message << "\n" << dump);
  return layer(*tree);
}

std::shared_ptr<const store::Layer> World::layer(const format::LayerTree& tree) {
  const auto image = format::write_layer(tree);
  if (!image) FAIL(image.error().message);
  std::vector<format::MapEntry> entries = entries_;
  std::set<Digest> known;
  for (const format::MapEntry& entry : entries_) known.insert(entry.digest);
  for (InodeId id = 0; id < tree.capacity(); ++id) {
    const Digest& object = tree.inode(id).object;
    if (object.is_zero() || !known.insert(object).second) continue;
    entries.push_back({object, {digest_of("pack"), format::kPackHeaderBytes, 1, 1, format::Codec::plain}});
  }
  const auto digest = store_.put_layer(*image, format::write_location_map(entries));
  if (!digest) FAIL(digest.error().message);
  const auto loaded = cache_.load(*digest);
  if (!loaded) FAIL(loaded.error().message);
  return *loaded;
}

std::shared_ptr<const EnvTree> World::env(std::string_view name, Layers layers, format::XattrView view) {
  const auto tree = EnvTree::create(digest_of(name), view, std::move(layers), *slots_);
  if (!tree) FAIL(tree.error().message);
  return *tree;
}

std::unique_ptr<Namespace> World::names() {
  return std::make_unique<Namespace>(std::make_unique<ContentReader>(source_, 1 << 20));
}

Result<Bytes> read_bytes(const Namespace& names, NodeId file, std::uint64_t offset, std::size_t length) {
  Bytes joined;
  for (const Slice& slice : TRY(names.read(file, offset, length, later()))) {
    if (slice.chunk)
      joined.insert(joined.end(), slice.view().begin(), slice.view().end());
    else
      joined.resize(joined.size() + slice.length);
  }
  return joined;
}

}  // namespace dsec::tree::test
