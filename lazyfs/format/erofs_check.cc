// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "base/text.h"
#include "format/erofs.h"
#include "format/internal/erofs_disk.h"

namespace dsec::format {

namespace {

// Reads a whole image into a tree. Every directory is entered once, so hostile links between directories cannot make
// it run for long, and all inodes together are charged no more bytes than the image has.
class TreeReader {
 public:
  TreeReader(const ErofsView& view, std::size_t image_bytes) : view_(view), bytes_left_(image_bytes) {}

  Result<LayerTree> run() {
    const InodeView root = TRY(view_.inode(view_.root_nid()));
    tree_.inode(LayerTree::root()) = TRY_IN("/", decode(root));
    ids_.emplace(root.nid, LayerTree::root());
    directories_.push_back({root, LayerTree::root()});
    while (!directories_.empty()) {
      const Directory next = directories_.back();
      directories_.pop_back();
      TRY(read_directory(next));
    }
    return std::move(tree_);
  }

 private:
  struct Directory {
    InodeView inode;
    InodeId id;
  };

  Result<void> read_directory(const Directory& directory) {
    Result<void> outcome;
    TRY(view_.for_each_entry(directory.inode, [&](const DirentView& entry) {
      if (entry.name == "." || entry.name == "..") return true;
      outcome = add(directory.id, entry);
      if (!outcome) outcome = tl::unexpected(outcome.error().within(escaped(entry.name)));
      return outcome.has_value();
    }));
    return outcome;
  }

  Result<void> add(InodeId directory, const DirentView& entry) {
    const auto known = ids_.find(entry.nid);
    if (known != ids_.end()) return tree_.link(directory, entry.name, known->second);
    const InodeView inode = TRY(view_.inode(entry.nid));
    Inode decoded = TRY(decode(inode));
    const InodeId id = TRY(tree_.add(directory, entry.name, std::move(decoded)));
    ids_.emplace(entry.nid, id);
    if (inode.type == FileType::directory) directories_.push_back({inode, id});
    return {};
  }

  // Inodes of a good image share no bytes. In a bad one they may share large xattrs, directories or symlinks, or claim
  // chunk maps that are not there, and so stand for a tree, or an image of it, that fits no memory.
  Result<void> charge(const InodeView& inode) {
    std::uint64_t data = 0;
    if (inode.type == FileType::directory || inode.type == FileType::symlink) data = inode.size;
    if (inode.type == FileType::regular && inode.size > 0) data = ((inode.size - 1) >> disk::kChunkBits) * 4 + 4;
    const std::uint64_t head = disk::kInodeBytes + inode.xattr_bytes;
    if (head > bytes_left_ || data > bytes_left_ - head) {
      return fail(ErrorCode::corrupt, "inode {} and those before it have more data than the image", inode.nid);
    }
    bytes_left_ -= head + data;
    return {};
  }

  Result<Inode> decode(const InodeView& view) {
    TRY(charge(view));
    return view_.decode(view);
  }

  const ErofsView& view_;
  std::uint64_t bytes_left_;
  LayerTree tree_;
  std::unordered_map<std::uint64_t, InodeId> ids_;
  std::vector<Directory> directories_;
};

}  // namespace

Result<LayerTree> read_layer(ByteView image) {
  const ErofsView view = TRY(ErofsView::open(image));
  auto tree = TreeReader(view, image.size()).run();
  if (!tree) {
    // A tree rule broken by an image is damage, whatever the code that found it says.
    Error error = tree.error();
    error.code = ErrorCode::corrupt;
    return tl::unexpected(std::move(error));
  }
  auto again = write_layer(*tree);
  if (!again || again->size() != image.size() || std::memcmp(again->data(), image.data(), image.size()) != 0) {
    return fail(ErrorCode::corrupt, "the image is not in canonical form");
  }
  return tree;
}

}  // namespace dsec::format
