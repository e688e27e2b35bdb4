// SPDX-License-Identifier: Apache-2.0
#include "composer/hidden_symlinks.h"

#include <algorithm>

#include "base/text.h"

namespace dsec::composer {

using format::FileType;
using format::InodeId;
using format::LayerTree;

std::vector<HiddenLink> find_hidden_symlinks(const LayerTree& layer, const MergedTree& below) {
  struct Pair {
    InodeId upper;
    InodeId lower;
    std::string path;
  };
  const LayerTree& lower_tree = below.tree();
  std::vector<HiddenLink> found;
  std::vector<Pair> waiting{{LayerTree::root(), LayerTree::root(), ""}};
  while (!waiting.empty()) {
    const Pair pair = std::move(waiting.back());
    waiting.pop_back();
    if (layer.inode(pair.upper).opaque) continue;
    for (const auto& [name, child] : layer.children(pair.upper)) {
      if (layer.inode(child).type != FileType::directory) continue;
      const InodeId lower = lower_tree.find(pair.lower, name);
      if (lower == LayerTree::kNone) continue;
      std::string path = fmt::format("{}/{}", pair.path, name);
      const format::Inode& inode = lower_tree.inode(lower);
      if (inode.type == FileType::symlink) found.push_back({escaped(path), escaped(inode.target)});
      if (inode.type == FileType::directory) waiting.push_back({child, lower, std::move(path)});
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return found;
}

}  // namespace dsec::composer
