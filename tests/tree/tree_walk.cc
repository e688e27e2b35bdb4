// SPDX-License-Identifier: Apache-2.0
#include "tree/tree_walk.h"

#include <catch2/catch.hpp>

namespace dsec::tree::test {

using Kind = ListedEntry::Kind;

Place place_of(const EnvTree& env, NodeId id, Kind& kind) {
  for (std::uint32_t i = 0; i < env.slots().size(); ++i) {
    const auto& slots = env.slots()[i];
    if (id.slot() != slots.shared && id.slot() != slots.pure && id.slot() != slots.merged) continue;
    kind = id.slot() == slots.merged ? Kind::merged : Kind::pure;
    return {i, id.nid()};
  }
  FAIL("node " << id.value() << " is in no slot of the environment");
  return {};
}

namespace {

void walk_into(const EnvTree& env, const std::string& path, const Seen& directory, std::map<std::string, Seen>& all) {
  Kind kind = Kind::pure;
  const Place place = place_of(env, directory.attributes.id, kind);
  CHECK(kind == directory.kind);
  const auto listing = env.list(place, kind);
  if (!listing) FAIL(path << ": " << listing.error().message);
  std::string_view before;
  for (const ListedEntry& entry : **listing) {
    const std::string name = path + "/" + std::string(entry.name);
    INFO(name);
    CHECK((before.empty() || before < entry.name));
    before = entry.name;
    const auto listed = env.attributes(entry.place, entry.kind);
    const auto looked_up = env.lookup(place, kind, entry.name);
    REQUIRE(listed);
    REQUIRE(looked_up);
    CHECK(listed->id == looked_up->id);
    CHECK(listed->nlink == looked_up->nlink);
    CHECK(listed->type == looked_up->type);
    const Seen seen{*looked_up, entry.kind};
    all[name] = seen;
    if (looked_up->type != format::FileType::directory) continue;
    const auto parent = env.parent(entry.place);
    REQUIRE(parent);
    CHECK(parent->id == directory.attributes.id);
    walk_into(env, name, seen, all);
  }
}

}  // namespace

std::map<std::string, Seen> walk(const EnvTree& env) {
  std::map<std::string, Seen> all;
  const auto root = env.root();
  if (!root) FAIL(root.error().message);
  all[""] = {*root, Kind::merged};
  walk_into(env, "", all[""], all);
  return all;
}

std::string outline(const EnvTree& env) {
  std::string text;
  for (const auto& [path, seen] : walk(env)) {
    if (!path.empty()) text += path + " " + to_string(seen.attributes.type) + "\n";
  }
  return text;
}

}  // namespace dsec::tree::test
