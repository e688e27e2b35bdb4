// SPDX-License-Identifier: Apache-2.0
#include "prefetch/recorder.h"

#include <catch2/catch.hpp>

#include "tree/tree_support.h"

namespace dsec::prefetch {
namespace {

using namespace tree::test;
using tree::EnvTree;
using tree::NodeId;

NodeId lookup(const tree::Namespace& names, std::initializer_list<std::string_view> path) {
  NodeId node = tree::kRootNode;
  for (const std::string_view name : path) node = names.lookup(node, name, later()).value().id;
  return node;
}

// A layer with a small file "f" and one of three chunks, "big", shown as "shared"; and a private tree of it, "own".
struct Fixture {
  Fixture() {
    format::LayerTree tree;
    format::Inode inode;
    inode.object = small = world.content(noise(1, 100));
    inode.size = 100;
    REQUIRE(tree.add(0, "f", inode));
    inode.object = big = world.content(large, 1000);
    inode.size = large.size();
    REQUIRE(tree.add(0, "big", inode));
    shared = world.env("e", {world.layer(tree)});
    own = *EnvTree::create(shared->digest(), format::XattrView::plain, shared->layers(), world.slots(),
                           EnvTree::Sharing::none);
    names->attach("shared", shared);
    names->attach("own", own);
  }
  void read(std::string_view in, std::string_view file, std::uint64_t offset, std::size_t length) const {
    REQUIRE(names->read(lookup(*names, {in, file}), offset, length, later()));
  }
  [[nodiscard]] Digest part(std::size_t which) const { return sha256(ByteView(large).subspan(which * 1000, 1000)); }

  Bytes large = noise(2, 3000);
  World world;
  Digest small, big;
  std::shared_ptr<const EnvTree> shared, own;
  std::unique_ptr<tree::Namespace> names = world.names();
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
};

TEST_CASE("a private tree shares no node with others, and only its own readers are recorded") {
  Fixture f;
  CHECK_FALSE(lookup(*f.names, {"own", "f"}) == lookup(*f.names, {"shared", "f"}));
  f.names->observe("own", f.recorder);
  f.read("shared", "f", 0, 10);
  CHECK(f.recorder->trace().empty());
  f.read("own", "big", 1500, 10);
  f.read("own", "f", 0, 10);
  f.read("own", "big", 0, 1001);
  CHECK(f.recorder->trace() == format::Trace{f.big, f.part(1), f.small, f.part(0)});
  f.names->unobserve("own", f.recorder);
  f.read("own", "big", 2000, 10);
  CHECK(f.recorder->trace().size() == 4);
  CHECK(f.names->private_meter("own")->reads.get() == 4);
  CHECK(f.names->meter(f.shared->layers()[0]->digest())->reads.get() == 1);
  f.names->detach("own");
  CHECK(f.names->private_meter("own") == nullptr);
  f.read("shared", "f", 0, 10);
}

TEST_CASE("what is shared is recorded for everybody who watches a layer, through other environments too") {
  Fixture f;
  const auto second = std::make_shared<Recorder>();
  f.names->observe("shared", f.recorder);
  f.names->attach("other", f.world.env("other", f.shared->layers()));
  f.names->observe("other", second);
  f.read("other", "f", 0, 10);
  f.names->unobserve("other", second);
  f.names->detach("other");
  f.read("shared", "big", 2500, 10);
  CHECK(f.recorder->trace() == format::Trace{f.small, f.big, f.part(2)});
  CHECK(second->trace() == format::Trace{f.small});
}

TEST_CASE("objects are recorded for the environments that have them") {
  Fixture f;
  const auto reader = [&] { return std::make_unique<tree::ContentReader>(f.world.source(), 1 << 20); };
  tree::ObjectTable objects(reader());
  objects.attach(f.shared->digest(), f.shared->layers());
  objects.observers(f.shared->digest())->add(f.recorder);
  CHECK(objects.observers(digest_of("nobody")) == nullptr);
  const std::string hex = f.big.hex();
  const NodeId top = objects.lookup(tree::kObjectsNode, hex.substr(0, 2), later()).value().id;
  const NodeId node = objects.lookup(top, hex.substr(2), later()).value().id;
  CHECK(f.recorder->trace() == format::Trace{f.big});
  REQUIRE(objects.read(node, 2999, 10, later()));
  CHECK(f.recorder->trace() == format::Trace{f.big, f.part(2)});
}

}  // namespace
}  // namespace dsec::prefetch
