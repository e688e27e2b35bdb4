// SPDX-License-Identifier: Apache-2.0
// An environment written down name by name.
#pragma once

#include <map>
#include <string>

#include "tree/env_tree.h"

namespace dsec::tree::test {

struct Seen {
  Attributes attributes;
  ListedEntry::Kind kind = ListedEntry::Kind::pure;
};
// Everything that an environment shows, by path ("/usr/bin"; the root is ""). Every entry is also looked up by name,
// and the test fails when lookup and listing do not say the same.
std::map<std::string, Seen> walk(const EnvTree& env);

// "/a regular\n/d directory\n": paths and types in order.
std::string outline(const EnvTree& env);

// The place and kind of a node of an environment, as a daemon finds them from its number.
Place place_of(const EnvTree& env, NodeId id, ListedEntry::Kind& kind);

}  // namespace dsec::tree::test
