// SPDX-License-Identifier: Apache-2.0
// What is known of a node: for people who want to see where its bytes are.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/digest.h"
#include "format/layer_tree.h"
#include "format/location_map.h"
#include "store/read_cost.h"
#include "tree/env_tree.h"

namespace dsec::tree {

struct NodeFacts {
  std::optional<Digest> env;  // one that shows it: files are shared by all that have the layer; none for an object
  Digest layer;               // a directory's: its uppermost one
  format::FileType type = format::FileType::regular;
  std::uint64_t size = 0;
  std::optional<Digest> object;          // of a regular file that is not empty
  std::vector<format::MapEntry> chunks;  // of its content, in order; holes have none, and a recipe is not among them
};

// Where a node that is no object lies.
struct Located {
  std::shared_ptr<const EnvTree> env;
  std::uint32_t layer = 0;  // index from the bottom
  std::uint64_t nid = 0;
};

// Where a chunk is now, without asking for it. Thread-safe; may be out of date at once.
using Whereabouts = std::function<store::Origin(const format::MapEntry&)>;

// A file's chunks by where they are.
struct Residence {
  struct Share {
    std::uint64_t chunks = 0;
    std::uint64_t stored_bytes = 0;
  };
  std::array<Share, store::kOrigins> shares;  // by Origin
  [[nodiscard]] const Share& of(store::Origin origin) const { return shares[static_cast<std::size_t>(origin)]; }
};
Residence residence(const NodeFacts& facts, const Whereabouts& where);

}  // namespace dsec::tree
