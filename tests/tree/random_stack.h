// SPDX-License-Identifier: Apache-2.0
// Random stacks of layers that collide a lot: few names, few levels, every rule of stitching.
#pragma once

#include <cstdint>
#include <vector>

#include "format/layer_tree.h"

namespace dsec::tree::test {

// Layers, bottom to top; the same for the same seed. Regular files are empty and told apart by their attributes.
std::vector<format::LayerTree> random_stack(std::uint64_t seed, std::size_t layers);

}  // namespace dsec::tree::test
