// SPDX-License-Identifier: Apache-2.0
// Objects by the part of their digest that fits a node number.
#pragma once

#include <cstdint>
#include <optional>

#include "base/digest.h"
#include "format/location_map.h"
#include "tree/node.h"

namespace dsec::tree {

// The node of an object: the same whatever layer it comes from, and after every restart.
NodeId object_node(const Digest& object);
// Bits of the digest that follow those: with them a node names one object, as far as anybody can make two.
std::uint64_t object_generation(const Digest& object);

// The entries of a map whose digests have a node's bits. There is at most one unless somebody went to the length of
// making two.
struct ObjectMatch {
  std::optional<Digest> digest;
  bool ambiguous = false;  // several
};

// Searches by interpolation, since digests are spread evenly: three places are looked at in a map of any size. A map
// with other numbers in it takes as many steps as halving does, and 64 more. Pure; thread-safe.
ObjectMatch find_object(const format::LocationMapView& map, NodeId object);

}  // namespace dsec::tree
