// SPDX-License-Identifier: Apache-2.0
// Everything that ErofsView can be asked, asked of bytes that may be anything.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "format/erofs.h"

namespace dsec::format::test {

// Walks an image as far as it can be read, each inode once, and asks for every attribute of it. Returns the number of
// inodes. Header only, so that fuzz targets need no test library.
class ViewWalk {
 public:
  explicit ViewWalk(const ErofsView& view) : view_(view) {}

  std::size_t run(std::size_t most_inodes) {
    waiting_.push_back(view_.root_nid());
    std::size_t count = 0;
    while (!waiting_.empty() && count < most_inodes) {
      const std::uint64_t nid = waiting_.back();
      waiting_.pop_back();
      if (!seen_.insert(nid).second) continue;
      if (const auto inode = view_.inode(nid)) {
        ++count;
        ask(*inode);
      }
    }
    return count;
  }

 private:
  void ask(const InodeView& inode) {
    (void)view_.object(inode);
    (void)view_.symlink_target(inode);
    (void)view_.is_opaque(inode);
    (void)view_.xattrs(inode, XattrView::plain);
    (void)view_.xattrs(inode, XattrView::overlay);
    (void)view_.raw_xattr(inode, "user.k");
    (void)view_.lookup(inode, "name-050");
    std::size_t entries = 0;
    (void)view_.for_each_entry(inode, [&](const DirentView& entry) {
      waiting_.push_back(entry.nid);
      (void)view_.lookup(inode, entry.name);
      return ++entries < kMaxEntries;
    });
  }

  static constexpr std::size_t kMaxEntries = 2000;
  const ErofsView& view_;
  std::vector<std::uint64_t> waiting_;
  std::set<std::uint64_t> seen_;
};

inline std::size_t walk_view(ByteView image) {
  const auto view = ErofsView::open(image);
  return view ? ViewWalk(*view).run(2000) : 0;
}

}  // namespace dsec::format::test
