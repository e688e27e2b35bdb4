// SPDX-License-Identifier: Apache-2.0
// What a tree must answer for node numbers that its predecessor gave out.
#include <catch2/catch.hpp>
#include <map>

#include "tree/tree_support.h"

namespace dsec::tree {
namespace {

using test::World;

constexpr std::string_view kBottom =
    "/usr directory mode=0755\n/usr/lib directory\n/usr/lib/a regular content=aa\n/usr/lib/deep directory\n"
    "/usr/lib/deep/x regular content=xx\n/usr/one regular content=links\n/usr/two link to=/usr/one\n"
    "/usr/three link to=/usr/one\n/only directory\n/only/s symlink target=../usr";
constexpr std::string_view kMiddle =
    "/usr directory mode=0711\n/usr/lib directory\n/usr/lib/b regular content=bb\n/usr/two regular content=other";
constexpr std::string_view kTop =
    "/usr directory\n/usr/lib directory\n/usr/lib/deep directory\n/usr/lib/deep/y regular";

// Every node below a directory: number -> what it says of itself, and for directories the numbers below.
struct Seen {
  Attributes attributes;
  std::map<std::string, std::uint64_t> entries;
};
void collect(const Namespace& names, NodeId directory, std::map<std::uint64_t, Seen>& seen) {
  const auto listing = names.open_directory(directory);
  REQUIRE(listing);
  for (std::size_t i = 2; i < (*listing)->size(); ++i) {
    const auto entry = names.entry(**listing, i, Namespace::Detail::full);
    REQUIRE(entry);
    const std::uint64_t number = entry->attributes.id.value();
    seen[directory.value()].entries[std::string(entry->name)] = number;
    seen[number].attributes = entry->attributes;
    if (entry->attributes.type == format::FileType::directory) collect(names, entry->attributes.id, seen);
  }
}

std::shared_ptr<const EnvTree> stack(World& world, std::string_view name) {
  if (name == "two") return world.env(name, {world.layer(kBottom), world.layer(kMiddle)});
  return world.env(name, {world.layer(kBottom), world.layer(kMiddle), world.layer(kTop)});
}

TEST_CASE("a successor knows every node by its number alone, in whatever order environments are attached") {
  World world;
  const auto path = world.dir() / "kept-slots";
  std::map<std::uint64_t, Seen> seen;
  {
    world.use_slots(*SlotTable::open(path));
    const auto names = world.names();
    for (const char* name : {"two", "three"}) {
      names->attach(name, stack(world, name));
      collect(*names, names->lookup(kRootNode, name)->id, seen);
    }
  }
  REQUIRE(seen.size() > 15);
  world.use_slots(*SlotTable::open(path));
  const auto names = world.names();
  for (const char* name : {"three", "two"}) names->attach(name, stack(world, name));
  // Without a lookup: the kernel asks for what it knows already. Deepest first, so that nothing was seen on the way.
  for (auto it = seen.rbegin(); it != seen.rend(); ++it) {
    const auto& [number, node] = *it;
    INFO("node " << number);
    const auto now = names->attributes(NodeId(number));
    REQUIRE(now);
    CHECK(now->id.value() == number);
    if (node.attributes.id.value() == number) {
      CHECK(now->type == node.attributes.type);
      CHECK(now->mode == node.attributes.mode);
      CHECK(now->nlink == node.attributes.nlink);
      CHECK(now->size == node.attributes.size);
    }
    for (const auto& [name, child] : node.entries) CHECK(names->lookup(NodeId(number), name)->id.value() == child);
  }
}

}  // namespace
}  // namespace dsec::tree
