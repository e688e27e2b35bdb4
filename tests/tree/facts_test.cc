// SPDX-License-Identifier: Apache-2.0
// What is known of a node: digest, layer, chunks, places; and the way from a node back to a path.
#include <catch2/catch.hpp>
#include <cerrno>

#include "tree/path_index.h"
#include "tree/tree_support.h"

namespace dsec::tree::test {
namespace {

struct Shown {
  Shown() {
    names->attach("env", env);
    const NodeId root = names->lookup(kRootNode, "env")->id;
    directory = names->lookup(root, "d")->id;
    for (const char* name : {"file", "empty", "link"}) nodes[name] = names->lookup(directory, name)->id;
  }
  World world;
  std::shared_ptr<const store::Layer> layer = world.layer(
      "/d directory\n/d/file regular content=hello\n/d/empty regular\n/d/link symlink target=file\n"
      "/e directory\n/e/deep directory\n/e/deep/other regular content=x\n/e/deep/twin link to=/d/file");
  std::shared_ptr<const EnvTree> env = world.env("env", {layer});
  std::unique_ptr<Namespace> names = world.names();
  NodeId directory;
  std::map<std::string, NodeId> nodes;
};

TEST_CASE("a file's facts are its digest, its layer and its chunks") {
  Shown shown;
  const auto facts = shown.names->facts(shown.nodes["file"], later());
  REQUIRE(facts);
  CHECK(facts->env == shown.env->digest());
  CHECK(facts->layer == shown.layer->digest());
  CHECK(facts->object == digest_of("hello"));
  CHECK(facts->size == 5);
  REQUIRE(facts->chunks.size() == 1);
  CHECK(facts->chunks[0].digest == digest_of("hello"));
}

TEST_CASE("what has no content has no digest and no chunks") {
  Shown shown;
  for (const NodeId node : {shown.nodes["empty"], shown.nodes["link"], shown.directory}) {
    const auto facts = shown.names->facts(node, later());
    REQUIRE(facts);
    CHECK_FALSE(facts->object);
    CHECK(facts->chunks.empty());
  }
  CHECK(shown.names->facts(kRootNode, later()).error().sys == ENODATA);
  CHECK(shown.names->facts(NodeId(4000, 4), later()).error().sys == ESTALE);
}

TEST_CASE("chunks are told apart by where they are") {
  Shown shown;
  const auto facts = shown.names->facts(shown.nodes["file"], later());
  const Residence here = residence(*facts, [](const format::MapEntry&) { return store::Origin::cache; });
  CHECK(here.of(store::Origin::cache).chunks == 1);
  CHECK(here.of(store::Origin::cache).stored_bytes == facts->chunks[0].location.stored_bytes);
  CHECK(here.of(store::Origin::memory).chunks == 0);
}

TEST_CASE("a file of several chunks has all of them in order, and holes have none") {
  World world;
  ContentReader reader(world.source(), 1 << 20);
  const Bytes bytes = noise(1, 300000);
  const Digest object = world.content(bytes, 100000);
  const auto layer = world.layer("/file regular");
  Counter fetched;
  const auto chunks = reader.chunks(*layer, object, bytes.size(), later(), fetched);
  REQUIRE(chunks);
  REQUIRE(chunks->size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(chunks->at(i).digest == sha256(ByteView(bytes).subspan(i * 100000, 100000)));
  }
}

TEST_CASE("an index of paths finds every node of a layer, hard-linked files under one of their names") {
  Shown shown;
  const auto index = PathIndex::build(shown.layer);
  REQUIRE(index);
  CHECK(index->path(shown.layer->view().root_nid()) == "/");
  CHECK(index->path(shown.directory.nid()) == "/d");
  CHECK(index->path(shown.nodes["empty"].nid()) == "/d/empty");
  const std::string file = index->path(shown.nodes["file"].nid());
  CHECK((file == "/d/file" || file == "/e/deep/twin"));
  CHECK(index->path(0xfffffff).empty());
}

TEST_CASE("a read raises the figures of its layer by origin") {
  Shown shown;
  REQUIRE(shown.names->read(shown.nodes["file"], 0, 5, later()));
  const auto located = shown.names->locate(shown.nodes["file"]);
  REQUIRE(located);
  CHECK(located->env->digest() == shown.env->digest());
  CHECK(located->nid == shown.nodes["file"].nid());
  CHECK_FALSE(shown.names->locate(kRootNode));
}

}  // namespace
}  // namespace dsec::tree::test
