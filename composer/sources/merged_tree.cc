// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/merged_tree.h"

#include <vector>

#include "base/text.h"
#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/path_walk.h"

namespace dsec::composer {

using format::FileType;
using format::Inode;
using format::LayerTree;

namespace {

// Carries one layer into the tree below it.
class Overlay {
 public:
  Overlay(const LayerTree& layer, LayerTree& tree) : layer_(layer), tree_(tree), copies_(layer.capacity(), kNone) {}

  Result<void> run() {
    set_attributes(layer_.root(), tree_.root());
    if (layer_.inode(layer_.root()).opaque) clear(tree_.root());
    waiting_.push_back({layer_.root(), tree_.root()});
    while (!waiting_.empty()) {
      const Pair pair = waiting_.back();
      waiting_.pop_back();
      for (const auto& [name, id] : layer_.children(pair.from)) TRY(put(id, pair.to, name));
    }
    return {};
  }

 private:
  struct Pair {
    InodeId from;
    InodeId to;
  };

  Result<void> put(InodeId id, InodeId directory, const std::string& name) {
    const Inode& inode = layer_.inode(id);
    if (inode.type == FileType::whiteout) {
      tree_.remove(directory, name);
      return {};
    }
    if (inode.type == FileType::directory) return put_directory(id, directory, name);
    if (copies_[id] != kNone && tree_.link_count(copies_[id]) > 0) return tree_.link(directory, name, copies_[id]);
    copies_[id] = TRY(tree_.add(directory, name, inode));
    return {};
  }

  Result<void> put_directory(InodeId id, InodeId directory, const std::string& name) {
    InodeId to = tree_.find(directory, name);
    const bool merges = to != kNone && tree_.inode(to).type == FileType::directory && !layer_.inode(id).opaque;
    if (!merges) to = TRY(tree_.add(directory, name, Inode{.type = FileType::directory}));
    set_attributes(id, to);
    waiting_.push_back({id, to});
    return {};
  }

  void set_attributes(InodeId from, InodeId to) {
    tree_.inode(to) = layer_.inode(from);
    tree_.inode(to).opaque = false;
  }

  void clear(InodeId directory) {
    while (!tree_.children(directory).empty()) {
      tree_.remove(directory, std::string(tree_.children(directory).begin()->first));
    }
  }

  const LayerTree& layer_;
  LayerTree& tree_;
  std::vector<InodeId> copies_;  // of the layer's inodes that are no directories
  std::vector<Pair> waiting_;    // directories whose children are still to be carried over
};

}  // namespace

Result<void> MergedTree::apply(const LayerTree& layer) { return Overlay(layer, tree_).run(); }

Result<format::InodeId> MergedTree::lookup(std::string_view path, FinalSymlink final) const {
  std::vector<std::string_view> names;
  for (const std::string_view name : split(path, '/')) {
    if (!name.empty()) names.push_back(name);
  }
  const UnionView view(tree_, nullptr);
  PathWalk walk;
  const bool keep = final == FinalSymlink::keep && !names.empty() && names.back() != "." && names.back() != "..";
  const std::string_view last = keep ? names.back() : std::string_view();
  if (keep) names.pop_back();
  TRY(walk.follow(view, names, keep ? PathWalk::Last::directory : PathWalk::Last::anything));
  Place place = walk.end();
  if (keep && place.exists()) place = view.child(place, last);
  if (!place.exists()) return fail(ErrorCode::not_found, "\"{}\" does not exist", shown(path));
  return place.upper;
}

}  // namespace dsec::composer
