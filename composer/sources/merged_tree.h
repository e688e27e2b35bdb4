// SPDX-License-Identifier: Apache-2.0
// The tree that a stack of layers shows.
#pragma once

#include <string_view>

#include "base/result.h"
#include "format/layer_tree.h"

namespace dsec::composer {

// The effective tree of the layers applied so far: overlayfs semantics, whiteouts and opaque marks carried out and gone
// (kernel: Documentation/filesystems/overlayfs.rst). Layers may come from a source or from a store. Value type, not
// thread-safe; const members may run in parallel.
class MergedTree {
 public:
  // Puts one more layer on top. A directory takes the attributes of the layer's; hard links of a layer stay hard links.
  // `invalid` when a limit of LayerTree is exceeded; the tree is then only good for destruction.
  Result<void> apply(const format::LayerTree& layer);

  [[nodiscard]] const format::LayerTree& tree() const { return tree_; }

  enum class FinalSymlink { follow, keep };
  // The inode at a path, symlinks resolved inside the root as a process with that root would. `not_found` when there
  // is none or a symlink dangles; `invalid` when something that is no directory is in the way, or after 40 symlinks.
  [[nodiscard]] Result<format::InodeId> lookup(std::string_view path, FinalSymlink final) const;

 private:
  format::LayerTree tree_;
};

}  // namespace dsec::composer
