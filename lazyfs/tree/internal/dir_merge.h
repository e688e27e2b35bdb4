// SPDX-License-Identifier: Apache-2.0
// The names of a directory that several layers have.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "format/erofs.h"
#include "tree/env_tree.h"

namespace dsec::tree {

// One layer's part of a merged directory.
struct DirPart {
  const format::ErofsView* image = nullptr;
  Place place;
};

// Calls visit(entry, whether it is a directory) for each name that shows, in order of the names. `parts` are from top
// to bottom. What an upper part has hides the names of lower ones, but for directories, which stack up to an opaque
// one; whiteouts hide and never show (kernel: Documentation/filesystems/overlayfs.rst). Costs O(n log parts) for n
// entries, for each layer's directory is in order of names already. `corrupt` for damaged images.
Result<void> merge_directory(std::span<const DirPart> parts,
                             const std::function<void(const ListedEntry&, bool is_directory)>& visit);

}  // namespace dsec::tree
