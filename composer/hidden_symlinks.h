// SPDX-License-Identifier: Apache-2.0
// Directories of a layer that take the place of symlinks below it.
#pragma once

#include <string>
#include <vector>

#include "composer/sources/merged_tree.h"
#include "format/layer_tree.h"

namespace dsec::composer {

struct HiddenLink {
  std::string path;    // escaped, with a leading slash
  std::string target;  // of the symlink
};

// "lib" as a directory over "lib -> usr/lib": legal, but what was found through the symlink is gone. In path order.
std::vector<HiddenLink> find_hidden_symlinks(const format::LayerTree& layer, const MergedTree& below);

}  // namespace dsec::composer
