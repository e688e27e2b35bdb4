// SPDX-License-Identifier: Apache-2.0
#include "tree/merged_tree.h"

#include <unordered_map>
#include <vector>

#include "tree/internal/dir_merge.h"

namespace dsec::tree {

using format::ErofsView;
using format::FileType;
using format::Inode;
using format::InodeId;
using format::InodeView;
using format::LayerTree;

namespace {

// Without an opaque mark, which has nothing to act on any more.
Result<Inode> copy_inode(const ErofsView& image, const InodeView& from) {
  Inode inode = TRY(image.decode(from));
  inode.opaque = false;
  return inode;
}

class Merger {
 public:
  explicit Merger(std::span<const std::shared_ptr<const store::Layer>> layers) : layers_(layers) {}

  Result<LayerTree> run(const std::function<bool()>& stop) {
    std::vector<DirPart> root = TRY(root_parts(layers_));
    const ErofsView& image = *root.front().image;
    tree_.inode(LayerTree::root()) = TRY(copy_inode(image, TRY(image.inode(root.front().place.nid))));
    waiting_.push_back({LayerTree::root(), std::move(root)});
    while (!waiting_.empty()) {
      if (stop()) return fail(ErrorCode::unavailable, "stopped while the layers were merged");
      const Directory directory = std::move(waiting_.back());
      waiting_.pop_back();
      TRY(fill(directory));
    }
    return std::move(tree_);
  }

 private:
  struct Directory {
    InodeId id = 0;
    std::vector<DirPart> parts;
  };

  Result<void> fill(const Directory& directory) {
    Result<void> outcome;
    TRY(merge_directory(directory.parts, [&](const ListedEntry& entry, std::span<const DirPart> parts) {
      if (outcome) outcome = add(directory.id, entry, parts);
    }));
    return outcome;
  }

  Result<void> add(InodeId directory, const ListedEntry& entry, std::span<const DirPart> parts) {
    const ErofsView& image = layers_[entry.place.layer]->view();
    const InodeView inode = TRY(image.inode(entry.place.nid));
    const bool is_linked = inode.type != FileType::directory && inode.nlink > 1;
    const auto known = is_linked ? links_.find(key_of(entry.place)) : links_.end();
    if (known != links_.end()) return tree_.link(directory, entry.name, known->second);
    if (tree_.capacity() >= kMaxMergedInodes) {
      return fail(ErrorCode::unsupported, "more than {} files are not merged", kMaxMergedInodes);
    }
    const InodeId id = TRY(tree_.add(directory, entry.name, TRY(copy_inode(image, inode))));
    if (is_linked) links_.emplace(key_of(entry.place), id);
    if (!parts.empty()) waiting_.push_back({id, {parts.begin(), parts.end()}});
    return {};
  }

  static std::uint64_t key_of(const Place& place) { return std::uint64_t{place.layer} << 32 | place.nid; }

  std::span<const std::shared_ptr<const store::Layer>> layers_;
  LayerTree tree_;
  std::vector<Directory> waiting_;
  std::unordered_map<std::uint64_t, InodeId> links_;  // of layers' inodes with several names
};

}  // namespace

Result<LayerTree> merged_tree(std::span<const std::shared_ptr<const store::Layer>> layers,
                              const std::function<bool()>& stop) {
  for (const auto& layer : layers) {
    if (layer->view().has_escapes()) {
      return fail(ErrorCode::unsupported, "layer {} has 0:0 devices or xattrs of overlayfs", layer->digest().hex());
    }
  }
  return Merger(layers).run(stop);
}

}  // namespace dsec::tree
