// SPDX-License-Identifier: Apache-2.0
// The names of a directory that several layers have.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "format/erofs.h"
#include "tree/env_tree.h"

namespace dsec::tree {

// One layer's part of a merged directory.
struct DirPart {
  const format::ErofsView* image = nullptr;
  Place place;
};

// Called for a name that shows. `directories` are the parts of what it names, from top to bottom, valid during the
// call; empty when that is no directory.
using VisitName = std::function<void(const ListedEntry&, std::span<const DirPart> directories)>;

// Calls `visit` for each name that shows, in order of the names. `parts` are from top to bottom. What an upper part has
// hides the names of lower ones, but for directories, which stack up to an opaque one; whiteouts hide and never show
// (kernel: Documentation/filesystems/overlayfs.rst). Costs O(n log parts) for n entries, for each layer's directory is
// in order of names already. `corrupt` for damaged images.
Result<void> merge_directory(std::span<const DirPart> parts, const VisitName& visit);

// The parts of the root of these layers (bottom to top): every layer has one, down to the first that is opaque.
Result<std::vector<DirPart>> root_parts(std::span<const std::shared_ptr<const store::Layer>> layers);

}  // namespace dsec::tree
