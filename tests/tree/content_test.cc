// SPDX-License-Identifier: Apache-2.0
#include "tree/content.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include "format/recipe.h"

#include "tree/tree_support.h"
#include "tree/tree_walk.h"

namespace dsec::tree::test {
namespace {

// A world with one file "/f" in environment "e", attached.
struct OneFile {
  explicit OneFile(const Bytes& bytes, std::size_t part) {
    format::Inode inode;
    inode.size = bytes.size();
    if (!bytes.empty()) inode.object = world.content(bytes, part);
    set_up(inode);
  }
  void set_up(const format::Inode& inode) {
    format::LayerTree tree;
    REQUIRE(tree.add(0, "f", inode));
    env = world.env("e", {world.layer(tree)});
    names = world.names();
    names->attach("e", env);
    file = walk(*env).at("/f").attributes.id;
  }
  [[nodiscard]] Result<Bytes> read(std::uint64_t offset, std::size_t length) const {
    return read_bytes(*names, file, offset, length);
  }
  World world;
  std::shared_ptr<const EnvTree> env;
  std::unique_ptr<Namespace> names;
  NodeId file;
};

TEST_CASE("every range of a file of one and of many chunks is exactly that range") {
  const Bytes bytes = noise(1, 10000);
  for (const std::size_t part : {std::size_t{20000}, std::size_t{10000}, std::size_t{1000}, std::size_t{999}}) {
    const OneFile one(bytes, part);
    for (const std::uint64_t offset : {0, 1, 998, 999, 1000, 5500, 9999, 10000, 20000}) {
      for (const std::size_t length : {0, 1, 2, 999, 1000, 3500, 10000, 1 << 20}) {
        const auto got = one.read(offset, length);
        REQUIRE(got);
        const std::size_t from = std::min<std::size_t>(offset, bytes.size());
        const std::size_t count = std::min(length, bytes.size() - from);
        CHECK(*got == Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                            bytes.begin() + static_cast<std::ptrdiff_t>(from + count)));
      }
    }
  }
}

TEST_CASE("holes read as zeros without a fetch, and lseek finds them") {
  Bytes bytes = noise(2, 4000);
  std::fill(bytes.begin() + 1000, bytes.begin() + 3000, 0);
  const OneFile one(bytes, 1000);
  CHECK(*one.read(0, 4000) == bytes);
  const auto seek = [&](std::uint64_t offset, ContentReader::Seek what) {
    return one.names->seek(one.file, offset, what, later());
  };
  CHECK(*seek(0, ContentReader::Seek::data) == 0);
  CHECK(*seek(0, ContentReader::Seek::hole) == 1000);
  CHECK(*seek(1500, ContentReader::Seek::hole) == 1500);
  CHECK(*seek(1500, ContentReader::Seek::data) == 3000);
  CHECK(*seek(3500, ContentReader::Seek::hole) == 4000);
  CHECK(seek(4000, ContentReader::Seek::data).error().sys == ENXIO);
}

TEST_CASE("an empty file has no bytes") {
  const OneFile one({}, 1000);
  CHECK(one.read(0, 100)->empty());
}

TEST_CASE("a file whose object has another size is corrupt: nobody gets other bytes") {
  OneFile one(noise(3, 5000), 1000);
  for (const std::size_t part : {std::size_t{1000}, std::size_t{10000}}) {
    format::Inode inode;
    inode.size = 6000;
    inode.object = one.world.content(noise(3, 5000), part);
    format::LayerTree tree;
    REQUIRE(tree.add(0, "f", inode));
    const std::string name = fmt::format("other{}", part);
    const auto env = one.world.env(name, {one.world.layer(tree)});
    one.names->attach(name, env);
    const auto got = one.names->read(walk(*env).at("/f").attributes.id, 0, 10, later());
    REQUIRE_FALSE(got);
    CHECK(got.error().code == ErrorCode::corrupt);
    CHECK_THAT(got.error().message, Catch::Contains(inode.object.hex()));
  }
}

TEST_CASE("a chunk that is in no map is corrupt and named") {
  OneFile one(noise(4, 100), 1000);
  format::Inode inode;
  inode.size = 7;
  format::Recipe recipe;
  format::add_chunk(recipe, digest_of("nowhere"), inode.size);
  inode.object = one.world.content(format::write_recipe(recipe));
  format::LayerTree tree;
  REQUIRE(tree.add(0, "f", inode));
  const auto env = one.world.env("other", {one.world.layer(tree)});
  one.names->attach("other", env);
  const auto got = one.names->read(walk(*env).at("/f").attributes.id, 0, 10, later());
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ErrorCode::corrupt);
  CHECK_THAT(got.error().message, Catch::Contains(digest_of("nowhere").hex()));
}

// Chunks that are only in one pack, as after a repack: other locations are not found.
class OnlyInPack final : public store::ChunkSource {
 public:
  OnlyInPack(std::shared_ptr<store::ChunkSource> inner, const Digest& pack) : inner_(std::move(inner)), pack_(pack) {}
  Result<store::Chunk> fetch(const store::ChunkRequest& request, store::Deadline deadline) override {
    if (request.location.pack != pack_) return fail(ErrorCode::not_found, "no pack {}", request.location.pack.hex());
    return inner_->fetch(request, deadline);
  }

 private:
  std::shared_ptr<store::ChunkSource> inner_;
  Digest pack_;
};

TEST_CASE("a reader of an attached environment finds what a repack moved") {
  const Bytes bytes = noise(2, 3000);
  const OneFile one(bytes, 1000);
  const store::Layer& layer = *one.env->layers()[0];
  const Digest moved = sha256(as_bytes("the new pack"));
  ContentReader reader(std::make_shared<OnlyInPack>(one.world.source(), moved), 0);
  const format::ErofsView& view = layer.view();
  const auto inode = *view.inode(*view.lookup(*view.inode(view.root_nid()), "f"));
  Counter fetched;
  const auto read = [&] { return reader.read(layer, *view.object(inode), bytes.size(), 0, 3000, later(), fetched); };

  std::vector<format::MapEntry> entries;
  for (std::size_t i = 0; i < layer.map().size(); ++i) {
    entries.push_back(layer.map().entry(i));
    entries.back().location.pack = moved;
  }
  dsec::test::write_text(one.world.store().layer_map_path(layer.digest()),
                         std::string(as_text(format::write_location_map(entries))));
  const auto slices = read();
  REQUIRE(slices);
  CHECK(slices->size() == 3);
}

}  // namespace
}  // namespace dsec::tree::test
