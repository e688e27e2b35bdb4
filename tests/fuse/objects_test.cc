// SPDX-License-Identifier: Apache-2.0
// The directory of objects, packet by packet.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "fuse/fuse_client.h"
#include "tree/object_index.h"
#include "tree/tree_support.h"

namespace dsec::fuse::test {
namespace {

using namespace dsec::test;
using tree::test::World;

struct Served {
  explicit Served(std::shared_ptr<store::ChunkSource> source = nullptr) {
    if (!source) source = world.source();
    const auto reader = [&] { return std::make_unique<tree::ContentReader>(source, 1 << 20); };
    objects = std::make_shared<tree::ObjectTable>(reader());
    SessionOptions options;
    options.threads = 1;
    options.request_deadline = std::chrono::milliseconds(300);
    connection = std::make_unique<Connection>(std::make_shared<tree::Namespace>(reader(), objects), options);
    connection->init();
  }
  Digest attach(const Bytes& content) {
    format::LayerTree tree;
    format::Inode inode;
    inode.object = world.content(content);
    inode.size = content.size();
    REQUIRE(tree.add(0, "f", inode));
    objects->attach(digest_of("e"), {world.layer(tree)});
    return inode.object;
  }
  [[nodiscard]] Reply lookup(const Digest& object) const {
    const std::string hex = object.hex();
    return connection->lookup(connection->walk({".objects", hex.substr(0, 2)}), hex.substr(2));
  }
  World world;
  std::shared_ptr<tree::ObjectTable> objects;
  std::unique_ptr<Connection> connection;
};

TEST_CASE("LOOKUP of an object holds for ever, its READ is the content") {
  Served served;
  const Bytes content = noise(1, 70000);
  const Digest object = served.attach(content);
  const Reply reply = served.lookup(object);
  REQUIRE(reply.error == 0);
  const auto entry = reply.as<fuse_entry_out>();
  CHECK(entry.nodeid == tree::object_node(object).value());
  CHECK(entry.generation == tree::object_generation(object));
  CHECK(entry.entry_valid > kForever);
  CHECK(entry.attr_valid > kForever);
  CHECK(entry.attr.size == content.size());
  CHECK(entry.attr.mode == (S_IFREG | 0444));
  CHECK(served.connection->read(entry.nodeid, 0, 131072).body == content);
}

TEST_CASE("an object that no layer has is EIO for who follows a layer to it, and not for ever") {
  Served served;
  CHECK(served.lookup(sha256(noise(1, 100))).error == EIO);
  CHECK(served.lookup(served.attach(noise(1, 100))).error == 0);
}

TEST_CASE("LOOKUP of an object whose store fails is EIO, not an absent name") {
  const auto fails = [](const store::ChunkRequest&, store::Deadline) -> Result<store::Chunk> {
    return fail(ErrorCode::not_found, "the pack is not there");
  };
  Served served(std::make_shared<ScriptedSource>(fails));
  CHECK(served.lookup(served.attach(noise(1, 100))).error == EIO);
}

TEST_CASE("LOOKUP of an object whose store hangs is EIO at the deadline, and others are served") {
  std::atomic<bool> over = false;
  const auto hangs = [&](const store::ChunkRequest&, store::Deadline) -> Result<store::Chunk> {
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return fail(ErrorCode::io, "too late");
  };
  Served served(std::make_shared<ScriptedSource>(hangs));
  CHECK(served.lookup(served.attach(noise(1, 100))).error == EIO);
  CHECK(served.connection->lookup(served.connection->walk({".objects", "ab"}), "no digest").error == 0);
  over = true;
}

}  // namespace
}  // namespace dsec::fuse::test
