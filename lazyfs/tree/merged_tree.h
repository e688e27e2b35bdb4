// SPDX-License-Identifier: Apache-2.0
// A whole environment as one layer.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "format/layer_tree.h"
#include "store/layer_cache.h"

namespace dsec::tree {

// Bounds what merged_tree() takes: some hundred bytes of memory an inode, and as much again for the image.
inline constexpr std::size_t kMaxMergedInodes = std::size_t{1} << 20;

// What the layers (bottom to top) show together, as EnvTree shows it: whiteouts and opaque marks are carried out and
// gone, a directory has the attributes of its uppermost part, the names of an inode that show are links of one inode.
// Linear in the entries of the layers. `stop` is asked before each directory: `unavailable` once it says true.
// `unsupported` for layers with escapes (format::ErofsView::has_escapes), which only an overlayfs above could undo, and
// for more than kMaxMergedInodes; `corrupt` for damaged images.
Result<format::LayerTree> merged_tree(std::span<const std::shared_ptr<const store::Layer>> layers,
                                      const std::function<bool()>& stop);

}  // namespace dsec::tree
