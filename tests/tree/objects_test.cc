// SPDX-License-Identifier: Apache-2.0
#include "tree/objects.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "tree/object_index.h"
#include "tree/tree_support.h"

namespace dsec::tree::test {
namespace {

// A namespace with objects over a world, and the way of a path lookup in it.
struct Shown {
  explicit Shown(std::shared_ptr<store::ChunkSource> source = nullptr) {
    if (!source) source = world.source();
    objects = std::make_shared<ObjectTable>(std::make_unique<ContentReader>(source, 1 << 20));
    names = std::make_unique<Namespace>(std::make_unique<ContentReader>(source, 1 << 20), objects);
  }
  std::shared_ptr<const store::Layer> layer_with(std::initializer_list<Digest> contents) {
    format::LayerTree tree;
    int number = 0;
    for (const Digest& content : contents) {
      format::Inode inode;
      inode.object = content;
      inode.size = 1;
      REQUIRE(tree.add(0, fmt::format("f{}", number++), inode));
    }
    return world.layer(tree);
  }
  [[nodiscard]] Result<Attributes> find(const Digest& object) const {
    const std::string hex = object.hex();
    const Attributes top = TRY(names->lookup(kRootNode, Namespace::kObjectsName, later()));
    const Attributes directory = TRY(names->lookup(top.id, hex.substr(0, 2), later()));
    return names->lookup(directory.id, hex.substr(2), later());
  }
  Bytes read(NodeId node, std::uint64_t offset, std::size_t length) const {
    auto bytes = read_bytes(*names, node, offset, length);
    if (!bytes) FAIL(bytes.error().message);
    return std::move(*bytes);
  }
  World world;
  std::shared_ptr<ObjectTable> objects;
  std::unique_ptr<Namespace> names;
};

TEST_CASE("objects of one and of many chunks are read-only files of the size of their content") {
  Shown shown;
  const Bytes small = noise(1, 1000);
  const Bytes large = noise(2, 300000);
  const Digest one = shown.world.content(small);
  const Digest many = shown.world.content(large, 1000);
  shown.objects->attach(digest_of("e"), {shown.layer_with({one, many})});
  for (const auto& [digest, content] : {std::pair{one, &small}, {many, &large}}) {
    const auto found = shown.find(digest);
    REQUIRE(found);
    CHECK(found->type == format::FileType::regular);
    CHECK(found->mode == 0444);
    CHECK(found->uid == 0);
    CHECK(found->nlink == 1);
    CHECK(found->size == content->size());
    CHECK(found->id == object_node(digest));
    CHECK(shown.read(found->id, 0, content->size()) == *content);
    CHECK(shown.read(found->id, content->size() - 5, 100).size() == 5);
    CHECK(shown.names->attributes(found->id, later())->size == content->size());
  }
}

TEST_CASE("an object has the same node in every layer, and in another daemon") {
  Shown shown;
  const Digest object = shown.world.content(noise(1, 100));
  shown.objects->attach(digest_of("one"), {shown.layer_with({object})});
  const auto first = shown.find(object);
  shown.objects->attach(digest_of("two"), {shown.layer_with({object, shown.world.content(noise(2, 100))})});
  shown.objects->detach(digest_of("one"));
  const auto second = shown.find(object);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->id == second->id);
  CHECK(first->generation == second->generation);
  // Nothing but the digest makes it: a daemon that has never seen the name reads by number.
  ObjectTable restarted(std::make_unique<ContentReader>(shown.world.source(), 1 << 20));
  restarted.attach(digest_of("two"), {shown.layer_with({object})});
  REQUIRE(restarted.read(first->id, 0, 100, later()));
  CHECK(restarted.attributes(first->id, later())->size == 100);
}

TEST_CASE("an object that no layer has is damage, until a layer brings it") {
  Shown shown;
  const Digest object = shown.world.content(noise(1, 100));
  CHECK(shown.find(object).error().code == ErrorCode::corrupt);
  shown.objects->attach(digest_of("e"), {shown.layer_with({object})});
  CHECK(shown.find(object));
  shown.objects->detach(digest_of("e"));
  CHECK(shown.find(object).error().sys == EIO);
  CHECK(shown.names->read(object_node(object), 0, 1, later()).error().sys == EIO);
}

// The copy on this node is of a map that the store had by mistake, and has no more.
TEST_CASE("an object that the local copy of a map lacks is found in the store's map") {
  Shown shown;
  const Digest object = shown.world.content(noise(1, 100));
  const auto other = shown.world.layer("/none regular mode=0644");
  const Digest layer = shown.layer_with({object})->digest();
  const auto copy_of = [&](const Digest& digest) {
    return shown.world.dir() / "cache/layers" / (digest.hex() + ".map");
  };
  const auto sealed_empty = [&] {
    dsec::test::write_text(shown.world.store().layer_map_path(other->digest()),
                           std::string(as_text(format::write_location_map({}))));
    std::filesystem::remove(copy_of(other->digest()));
    REQUIRE(store::LayerCache::open(shown.world.store(), shown.world.dir() / "cache")->load(other->digest()));
    return copy_of(other->digest());
  };
  std::filesystem::copy_file(sealed_empty(), copy_of(layer), std::filesystem::copy_options::overwrite_existing);
  const auto stale = *store::LayerCache::open(shown.world.store(), shown.world.dir() / "cache")->load(layer);
  REQUIRE(stale->map().size() == 0);
  shown.objects->attach(digest_of("e"), {other, stale});
  CHECK(shown.find(digest_of("no object")).error().sys == EIO);
  const auto found = shown.find(object);
  REQUIRE(found);
  CHECK(found->size == 100);
}

TEST_CASE("other names are not found") {
  const Shown shown;
  const auto top = shown.names->lookup(kRootNode, Namespace::kObjectsName, later());
  REQUIRE(top);
  for (const char* name : {"", "a", "AB", "xy", "abc", "..", "0 "}) {
    CHECK(shown.names->lookup(top->id, name, later()).error().code == ErrorCode::not_found);
  }
  const auto directory = shown.names->lookup(top->id, "ab", later());
  REQUIRE(directory);
  for (const std::string& name : {std::string("x"), std::string(62, 'g'), std::string(62, 'A'), std::string(64, 'a')}) {
    CHECK(shown.names->lookup(directory->id, name, later()).error().code == ErrorCode::not_found);
  }
}

TEST_CASE("the directories of objects list nothing, and the root does not list them") {
  const Shown shown;
  const auto top = shown.names->lookup(kRootNode, Namespace::kObjectsName, later());
  REQUIRE(top);
  CHECK(top->type == format::FileType::directory);
  for (const NodeId node : {kRootNode, top->id, shown.names->lookup(top->id, "ff", later())->id}) {
    CHECK((*shown.names->open_directory(node))->size() == 2);
    CHECK(shown.names->attributes(node, later())->type == format::FileType::directory);
    CHECK(shown.names->xattrs(node)->empty());
  }
}

TEST_CASE("a namespace without objects has no name for them") {
  World world;
  CHECK(world.names()->lookup(kRootNode, Namespace::kObjectsName).error().code == ErrorCode::not_found);
  CHECK(world.names()->attributes(NodeId(NodeId::kObjectBit | 5)).error().sys == ESTALE);
}

TEST_CASE("a store that fails is no absent object") {
  const auto fails = [](const store::ChunkRequest&, store::Deadline) -> Result<store::Chunk> {
    return fail(ErrorCode::not_found, "the pack is not there");
  };
  Shown shown(std::make_shared<dsec::test::ScriptedSource>(fails));
  const Digest object = shown.world.content(noise(1, 100));
  shown.objects->attach(digest_of("e"), {shown.layer_with({object})});
  const auto found = shown.find(object);
  REQUIRE_FALSE(found);
  CHECK(found.error().code == ErrorCode::io);
  CHECK(found.error().sys == EIO);
}

TEST_CASE("every environment that has an object pays for reading it") {
  Shown shown;
  const Digest shared = shown.world.content(noise(1, 100));
  const auto own = shown.layer_with({shown.world.content(noise(2, 100))});
  shown.objects->attach(digest_of("a"), {own, shown.layer_with({shared})});
  shown.objects->attach(digest_of("b"), {shown.layer_with({shared}), own});
  const NodeId node = shown.find(shared)->id;
  shown.read(node, 0, 60);
  for (const char* env : {"a", "b"}) {
    const auto meter = shown.objects->meter(digest_of(env));
    REQUIRE(meter);
    CHECK(meter->read_bytes.get() == 60);
    CHECK(meter->reads.get() == 1);
  }
  CHECK(shown.objects->meter(digest_of("c")) == nullptr);
}

Digest with_prefix(const Digest& digest, std::uint8_t last) {
  Digest other = digest_of("another");
  std::copy_n(digest.bytes.begin(), 8, other.bytes.begin());
  other.bytes[31] = last;
  return other;
}

std::shared_ptr<const store::Layer> layer_of_map(World& world, const std::vector<Digest>& digests) {
  std::vector<format::MapEntry> entries;
  for (const Digest& digest : digests) {
    format::MapEntry entry;
    entry.digest = digest;
    entry.location.plain_bytes = entry.location.stored_bytes = 5;
    entries.push_back(entry);
  }
  format::LayerTree tree;
  REQUIRE(tree.add(0, fmt::format("{} of {}", digests.front().brief(), digests.size()), {}));
  const auto put = world.store().put_layer(*format::write_layer(tree), format::write_location_map(entries));
  REQUIRE(put);
  const auto cache = store::LayerCache::open(world.store(), world.dir().path() / "second cache");
  return *cache->load(*put);
}

TEST_CASE("two objects whose numbers are equal are both refused, in one layer and in two") {
  Shown shown;
  const Digest object = shown.world.content(noise(1, 100));
  const Digest twin = with_prefix(object, 1);
  REQUIRE(object_node(object) == object_node(twin));
  shown.objects->attach(digest_of("good"), {shown.layer_with({object})});
  const NodeId node = shown.find(object)->id;
  CHECK(shown.find(twin).error().code == ErrorCode::corrupt);  // the other one has its number

  const auto one = layer_of_map(shown.world, {twin});
  const auto both = layer_of_map(shown.world, {with_prefix(object, 2), with_prefix(object, 3)});
  for (const auto& bad : {one, both}) {
    shown.objects->attach(digest_of("bad"), {bad});
    CHECK(shown.find(object).error().code == ErrorCode::corrupt);
    CHECK(shown.find(twin).error().code == ErrorCode::corrupt);
    CHECK(shown.names->read(node, 0, 1, later()).error().code == ErrorCode::corrupt);
    shown.objects->detach(digest_of("bad"));
    CHECK(shown.find(object));
  }
}

TEST_CASE("every entry of a map is found, and nothing else, whatever the digests are") {
  World world;
  for (const std::size_t count : {1u, 2u, 3u, 1000u}) {
    for (const bool clustered : {false, true}) {
      std::vector<Digest> digests;
      for (std::size_t i = 0; i < count; ++i) {
        Digest digest = digest_of(fmt::format("object {}", i));
        if (clustered) std::fill_n(digest.bytes.begin(), 6, i % 2 == 0 ? 0x00 : 0xff);
        digests.push_back(digest);
      }
      const auto layer = layer_of_map(world, digests);
      for (const Digest& digest : digests) {
        const ObjectMatch match = find_object(layer->map(), object_node(digest));
        REQUIRE(match.digest);
        CHECK((match.ambiguous || *match.digest == digest));
      }
      for (int i = 0; i < 100; ++i) {
        const Digest other = digest_of(fmt::format("absent {}", i));
        CHECK_FALSE(find_object(layer->map(), object_node(other)).digest);
      }
      for (const int fill : {0x00, 0xff}) {
        Digest edge;
        edge.bytes.fill(static_cast<std::uint8_t>(fill));
        CHECK_FALSE(find_object(layer->map(), object_node(edge)).digest);
      }
    }
  }
}

TEST_CASE("numbers of objects, directories and inodes do not meet") {
  CHECK(object_node(Digest{}).is_object());
  CHECK(object_node(Digest{}).value() == NodeId::kObjectBit);
  CHECK_FALSE(NodeId((1u << NodeId::kSlotBits) - 1, 0xffffffff).is_object());
  CHECK_FALSE(is_object_directory(kRootNode));
  CHECK_FALSE(is_object_directory(kObjectsNode));
  CHECK_FALSE(is_object_directory(NodeId(1, 300)));
  CHECK(is_object_directory(object_directory(0)));
  CHECK(is_object_directory(object_directory(255)));
  CHECK(object_node(digest_of("x")).value() >> 63 == 0);
}

}  // namespace
}  // namespace dsec::tree::test
