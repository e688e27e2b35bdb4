// SPDX-License-Identifier: Apache-2.0
#include "tree/hard_links.h"

namespace dsec::tree {

Result<HardLinks> collect_hard_links(const format::ErofsView& image) {
  struct Directory {
    std::uint64_t nid;
    std::string path;
  };
  HardLinks links;
  std::vector<Directory> waiting{{image.root_nid(), ""}};
  while (!waiting.empty()) {
    const Directory directory = std::move(waiting.back());
    waiting.pop_back();
    const format::InodeView inode = TRY(image.inode(directory.nid));
    Result<void> outcome;
    TRY(image.for_each_entry(inode, [&](const format::DirentView& entry) {
      if (entry.name == "." || entry.name == "..") return true;
      auto child = image.inode(entry.nid);
      if (!child) {
        outcome = tl::unexpected(child.error());
        return false;
      }
      std::string path =
          directory.path.empty() ? std::string(entry.name) : fmt::format("{}/{}", directory.path, entry.name);
      if (child->type == format::FileType::directory)
        waiting.push_back({entry.nid, std::move(path)});
      else if (child->nlink > 1)
        links[entry.nid].push_back(std::move(path));
      return true;
    }));
    TRY(std::move(outcome));
  }
  return links;
}

}  // namespace dsec::tree
