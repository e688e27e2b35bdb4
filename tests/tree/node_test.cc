// SPDX-License-Identifier: Apache-2.0
// Node numbers: one path, one number; the same bytes and attributes for ever (tree/node.h).
#include <catch2/catch.hpp>
#include <set>

#include "tree/tree_support.h"
#include "tree/tree_walk.h"

namespace dsec::tree::test {
namespace {

constexpr std::string_view kBase =
    "/bin directory\n/bin/sh regular mode=0755 content=shell\n/etc directory\n/etc/x regular\n/etc/y regular";
constexpr std::string_view kUpper = "/etc directory\n/etc/x regular content=new\n/opt directory\n/opt/t regular";

std::map<std::string, std::uint64_t> numbers(const EnvTree& env) {
  std::map<std::string, std::uint64_t> all;
  for (const auto& [path, seen] : walk(env)) all[path] = seen.attributes.id.value();
  return all;
}

TEST_CASE("every path has a number of its own, below 2^63 and never 0 or 1") {
  World world;
  const auto env = world.env("e", {world.layer(kBase), world.layer(kUpper), world.layer(kBase)});
  std::set<std::uint64_t> seen;
  for (const auto& [path, number] : numbers(*env)) {
    INFO(path);
    CHECK(number > 1);
    CHECK(number < std::uint64_t{1} << 63);
    CHECK(seen.insert(number).second);
  }
}

TEST_CASE("files of a layer have one number in all environments that have it; directories do not") {
  World world;
  const auto base = world.layer(kBase);
  const auto one = numbers(*world.env("one", {base}));
  const auto two = numbers(*world.env("two", {world.layer("/below directory"), base, world.layer(kUpper)}));
  CHECK(one.at("/bin/sh") == two.at("/bin/sh"));
  CHECK(one.at("/etc/y") == two.at("/etc/y"));
  CHECK(one.at("/etc/x") != two.at("/etc/x"));
  for (const char* directory : {"", "/bin", "/etc"}) CHECK(one.at(directory) != two.at(directory));
}

TEST_CASE("the second occurrence of a layer has numbers of its own") {
  World world;
  const auto layer = world.layer("/f regular content=a");
  const auto between = world.layer("/f whiteout");
  const auto once = numbers(*world.env("once", {layer}));
  const auto twice = numbers(*world.env("twice", {layer, between, layer}));
  CHECK(once.at("/f") != twice.at("/f"));
}

TEST_CASE("numbers are the same with a new slot table from the same file, in whatever order environments come") {
  World world;
  const auto file = world.dir() / "slots";
  const auto base = world.layer(kBase);
  const auto upper = world.layer(kUpper);
  world.use_slots(*SlotTable::open(file));
  const auto one = numbers(*world.env("one", {base, upper}));
  const auto two = numbers(*world.env("two", {base}));
  world.use_slots(*SlotTable::open(file));
  CHECK(numbers(*world.env("three", {upper})).at("/etc") != one.at("/etc"));
  CHECK(numbers(*world.env("two", {base})) == two);
  CHECK(numbers(*world.env("one", {base, upper})) == one);
}

TEST_CASE("a merged directory is found from its number alone, as after a restart") {
  World world;
  const auto base = world.layer("/a directory\n/a/b directory\n/a/b/low regular");
  const auto upper = world.layer("/a directory\n/a/b directory\n/a/b/high regular");
  const NodeId id = walk(*world.env("e", {base, upper})).at("/a/b").attributes.id;
  const auto again = world.env("e", {base, upper});  // nothing of it was used yet
  ListedEntry::Kind kind = ListedEntry::Kind::pure;
  const Place place = place_of(*again, id, kind);
  REQUIRE(kind == ListedEntry::Kind::merged);
  CHECK(again->lookup(place, kind, "low").has_value());
  CHECK(again->list(place, kind).value()->size() == 2);
  CHECK(again->attributes(place, kind)->nlink == 2);
  CHECK(again->parent(place)->id == walk(*again).at("/a").attributes.id);
}

TEST_CASE("numbers that name nothing are refused, never followed") {
  World world;
  const auto env = world.env("e", {world.layer(kBase), world.layer("/etc directory\n/etc/x whiteout\n/w whiteout")});
  for (const Place place : {Place{7, 1}, Place{0, 0xffffffff}, Place{0, 3}}) {
    for (const auto kind : {ListedEntry::Kind::pure, ListedEntry::Kind::merged}) {
      CHECK_FALSE(env->attributes(place, kind));
      if (place.layer < 2) CHECK_FALSE(env->lookup(place, kind, "x"));
    }
  }
}

}  // namespace
}  // namespace dsec::tree::test
