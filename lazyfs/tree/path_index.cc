// SPDX-License-Identifier: Apache-2.0
#include "tree/path_index.h"

#include <vector>

namespace dsec::tree {

using format::DirentView;
using format::FileType;
using format::InodeView;

Result<PathIndex> PathIndex::build(std::shared_ptr<const store::Layer> layer) {
  const format::ErofsView& view = layer->view();
  if (view.inode_count() > kMaxInodes) {
    return fail(ErrorCode::unsupported, "layer {} has {} inodes: too many to look for paths", layer->digest().hex(),
                view.inode_count());
  }
  PathIndex index(layer);
  index.names_.reserve(view.inode_count());
  std::vector<std::uint64_t> directories{view.root_nid()};
  while (!directories.empty()) {
    const std::uint64_t nid = directories.back();
    directories.pop_back();
    const InodeView directory = TRY(view.inode(nid));
    if (directory.type != FileType::directory) continue;
    TRY(view.for_each_entry(directory, [&](const DirentView& entry) {
      if (entry.name == "." || entry.name == "..") return true;
      constexpr std::uint8_t kDirectoryHint = 2;  // FT_DIR
      const bool is_new = index.names_.try_emplace(entry.nid, Name{nid, entry.name}).second;
      if (is_new && entry.file_type == kDirectoryHint) directories.push_back(entry.nid);
      return true;
    }));
  }
  return index;
}

std::string PathIndex::path(std::uint64_t nid) const {
  const std::uint64_t root = layer_->view().root_nid();
  if (nid == root) return "/";
  std::string path;
  for (std::size_t steps = 0; nid != root && steps <= names_.size(); ++steps) {
    const auto found = names_.find(nid);
    if (found == names_.end()) return {};
    path.insert(0, found->second.name);
    path.insert(0, "/");
    nid = found->second.parent;
  }
  return path;
}

}  // namespace dsec::tree
