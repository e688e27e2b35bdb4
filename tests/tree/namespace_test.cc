// SPDX-License-Identifier: Apache-2.0
#include "tree/namespace.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "tree/tree_support.h"

namespace dsec::tree::test {
namespace {

using Detail = Namespace::Detail;

std::vector<std::string> list(const Namespace& names, NodeId directory) {
  const auto listing = names.open_directory(directory);
  if (!listing) FAIL(listing.error().message);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < (*listing)->size(); ++i) {
    const auto entry = names.entry(**listing, i, Detail::full);
    if (!entry) FAIL(entry.error().message);
    all.emplace_back(entry->name);
  }
  return all;
}

NodeId lookup(const Namespace& names, std::initializer_list<std::string_view> path) {
  NodeId node = kRootNode;
  for (const std::string_view name : path) {
    const auto found = names.lookup(node, name);
    if (!found) FAIL(name << ": " << found.error().message);
    node = found->id;
  }
  return node;
}

TEST_CASE("environments come and go as directories of the root") {
  World world;
  const auto names = world.names();
  const auto env = world.env("e", {world.layer("/f regular content=hello\n/d directory")});
  names->attach("one", env);
  names->attach("one", env);
  names->attach("two", world.env("f", {world.layer("/g regular")}));
  CHECK(names->attached() == std::vector<std::string>{"one", "two"});
  CHECK(list(*names, kRootNode) == std::vector<std::string>{".", "..", "one", "two"});
  CHECK(list(*names, lookup(*names, {"one"})) == std::vector<std::string>{".", "..", "d", "f"});
  names->detach("one");
  names->detach("never");
  CHECK(names->lookup(kRootNode, "one").error().code == ErrorCode::not_found);
  CHECK(names->attached() == std::vector<std::string>{"two"});
}

TEST_CASE("a node of an environment that is gone is stale") {
  World world;
  const auto names = world.names();
  names->attach("e", world.env("e", {world.layer("/f regular content=hello\n/d directory\n/l symlink target=x")}));
  const NodeId file = lookup(*names, {"e", "f"});
  const NodeId directory = lookup(*names, {"e", "d"});
  names->detach("e");
  for (const NodeId node : {file, directory, NodeId(), NodeId(77, 5)}) {
    CHECK(names->attributes(node).error().sys == ESTALE);
    CHECK(names->lookup(node, "x").error().sys == ESTALE);
    CHECK(names->read(node, 0, 1, later()).error().sys == ESTALE);
    CHECK(names->open_directory(node).error().sys == ESTALE);
  }
}

TEST_CASE("a shared file goes on through another environment that has its layer") {
  World world;
  const auto names = world.names();
  const auto shared = world.layer("/f regular content=hello\n/g link to=/f");
  names->attach("one", world.env("one", {shared}));
  names->attach("two", world.env("two", {world.layer("/x regular"), shared, world.layer("/g whiteout")}));
  const NodeId file = lookup(*names, {"one", "f"});
  names->detach("one");
  // In "two" the file has lost a name and a number of its own; the old number still means what it meant.
  const auto attributes = names->attributes(file);
  REQUIRE(attributes);
  CHECK(attributes->id == file);
  CHECK(attributes->nlink == 2);
  CHECK(names->read(file, 0, 5, later()).value()[0].view().size() == 5);
  CHECK(names->attributes(lookup(*names, {"two", "f"}))->nlink == 1);
}

TEST_CASE("a listing that is open outlives its environment") {
  World world;
  const auto names = world.names();
  names->attach("e", world.env("e", {world.layer("/a regular\n/b regular")}));
  const auto listing = *names->open_directory(lookup(*names, {"e"}));
  names->detach("e");
  CHECK(listing->size() == 4);
  CHECK(names->entry(*listing, 3, Detail::full)->name == "b");
}

TEST_CASE("dot and dot-dot are the directory and its parent; short entries tell the type") {
  World world;
  const auto names = world.names();
  names->attach("e", world.env("e", {world.layer("/d directory\n/d/l symlink target=x\n/d/p fifo\n/d/s directory")}));
  const NodeId d = lookup(*names, {"e", "d"});
  const auto listing = *names->open_directory(d);
  CHECK(names->entry(*listing, 0, Detail::type_only)->attributes.id == d);
  CHECK(names->entry(*listing, 1, Detail::type_only)->attributes.id == lookup(*names, {"e"}));
  CHECK(names->entry(*listing, 2, Detail::type_only)->attributes.type == format::FileType::symlink);
  CHECK(names->entry(*listing, 3, Detail::type_only)->attributes.type == format::FileType::fifo);
  CHECK(names->entry(*listing, 4, Detail::type_only)->attributes.id == lookup(*names, {"e", "d", "s"}));
  const auto root = *names->open_directory(lookup(*names, {"e"}));
  CHECK(names->entry(*root, 1, Detail::type_only)->attributes.id == kRootNode);
}

TEST_CASE("symlinks give their target, everything else refuses; reading a directory is refused") {
  World world;
  const auto names = world.names();
  names->attach(
      "e", world.env("e", {world.layer("/l symlink target=../t\\x20x\n/f regular content=a\n/d directory\n/p fifo")}));
  CHECK(*names->symlink_target(lookup(*names, {"e", "l"})) == "../t x");
  CHECK(names->symlink_target(lookup(*names, {"e", "f"})).error().sys == EINVAL);
  CHECK(names->read(lookup(*names, {"e", "d"}), 0, 1, later()).error().sys == EISDIR);
  CHECK(names->read(lookup(*names, {"e", "p"}), 0, 1, later())->empty());
}

TEST_CASE("reads are counted by layer") {
  World world;
  const auto names = world.names();
  const auto layer = world.layer("/f regular content=hello");
  CHECK(names->meter(layer->digest()) == nullptr);
  names->attach("e", world.env("e", {layer}));
  REQUIRE(names->read(lookup(*names, {"e", "f"}), 1, 100, later()));
  const auto meter = names->meter(layer->digest());
  CHECK(meter->reads.get() == 1);
  CHECK(meter->read_bytes.get() == 4);
  CHECK(meter->store_bytes.get() == 5);
  names->detach("e");
  CHECK(names->meter(layer->digest()) != nullptr);
}

TEST_CASE("attaching and detaching while others read is safe") {
  World world;
  const auto names = world.names();
  const auto shared = world.layer("/f regular content=hello");
  const auto steady = world.env("steady", {shared});
  const auto moving = world.env("moving", {shared, world.layer("/g regular")});
  names->attach("steady", steady);
  const NodeId file = lookup(*names, {"steady", "f"});
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread reader([&] {
    while (!stop) wrong += names->read(file, 0, 5, later()).has_value() ? 0 : 1;
  });
  for (int i = 0; i < 2000; ++i) {
    names->attach("moving", moving);
    names->detach("moving");
  }
  stop = true;
  reader.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace dsec::tree::test
