// SPDX-License-Identifier: Apache-2.0
// Walking paths in a layer on top of the tree below it, as a process with that root would.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/layer_tree.h"

namespace dsec::composer {

using format::InodeId;
inline constexpr InodeId kNone = format::LayerTree::kNone;

// One path in the union: its inode in the layer, and the directory (or, where the layer has nothing, the inode) below
// that shows through.
struct Place {
  InodeId upper = kNone;
  InodeId lower = kNone;
  [[nodiscard]] bool exists() const { return upper != kNone || lower != kNone; }
};

// A layer under construction seen together with the tree below (which may be null), by overlayfs rules: the layer's
// entry hides the lower one, two directories merge unless the layer's is opaque, a whiteout is nothing.
class UnionView {
 public:
  UnionView(const format::LayerTree& upper, const format::LayerTree* lower) : upper_(&upper), lower_(lower) {}

  [[nodiscard]] Place root() const;
  [[nodiscard]] Place child(Place directory, std::string_view name) const;
  // Attributes of a place that exists.
  [[nodiscard]] const format::Inode& inode(Place place) const;
  // The lower directory's child under a name, whatever the layer says about that name; kNone when there is none.
  [[nodiscard]] InodeId lower_child(Place directory, std::string_view name) const;

 private:
  const format::LayerTree* upper_;
  const format::LayerTree* lower_;
};

// Follows paths; keeps its buffers from one walk to the next. Symlinks are resolved inside the root: absolute targets
// start there, ".." stops there (path_resolution(7) for a process whose root it is).
class PathWalk {
 public:
  static constexpr int kMaxSymlinks = 40;  // MAXSYMLINKS of the kernel (include/linux/namei.h): more is an error

  struct Step {
    Place place;  // of a directory that nothing names yet: does not exist
    std::string name;
  };
  enum class Last { directory, anything };

  // Walks `components`. Each must be a directory or lead to one; the last may be anything that is no symlink when
  // `last` says so. Components that do not exist become steps whose place does not exist, unless they are named by a
  // symlink: that is `not_found`. `invalid` when something else than a directory is in the way, or after kMaxSymlinks.
  Result<void> follow(const UnionView& view, std::span<const std::string_view> components, Last last = Last::directory);

  // Where the walk ended, from below the root to the end; empty for the root. Valid until the next walk.
  [[nodiscard]] std::span<Step> steps() { return {steps_.data(), depth_}; }
  [[nodiscard]] Place end() const { return depth_ == 0 ? root_ : steps_[depth_ - 1].place; }
  // "a/b" of where the walk ended, with `name` appended when it is not empty.
  [[nodiscard]] std::string path(std::string_view name = {}) const;

 private:
  struct Pending {
    std::string_view name;
    bool from_symlink = false;
  };
  Result<void> advance(const UnionView& view, Pending next, Last last);
  Result<void> enter_symlink(std::string_view target);
  void push(Place place, std::string_view name);

  Place root_;
  std::vector<Step> steps_;  // the first depth_ are in use
  std::size_t depth_ = 0;
  std::vector<Pending> pending_;  // a stack
  int symlinks_ = 0;
};

}  // namespace dsec::composer
