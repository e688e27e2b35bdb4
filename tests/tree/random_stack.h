// SPDX-License-Identifier: Apache-2.0
// Random stacks of layers that collide a lot: few names, few levels, every rule of stitching.
#pragma once

#include <cstdint>
#include <vector>

#include "format/layer_tree.h"

namespace dsec::tree::test {

// Whether some files have sizes and objects, which are nowhere, and some inodes xattrs.
enum class Contents { none, some };

// Layers, bottom to top; the same for the same arguments. Empty regular files are told apart by their attributes.
std::vector<format::LayerTree> random_stack(std::uint64_t seed, std::size_t layers, Contents contents = Contents::none);

}  // namespace dsec::tree::test
