// SPDX-License-Identifier: Apache-2.0
#include "tree/random_stack.h"

#include <random>
#include <string>

namespace dsec::tree::test {

using format::FileType;
using format::Inode;
using format::InodeId;
using format::LayerTree;

namespace {

class Maker {
 public:
  Maker(std::uint64_t seed, Contents contents) : random_(seed), contents_(contents) {}

  LayerTree make() {
    LayerTree tree;
    tree.inode(0).mode = mode();
    tree.inode(0).opaque = one_in(20);
    fill(tree, LayerTree::root(), 0);
    return tree;
  }

 private:
  static constexpr int kLevels = 4;

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  std::uint16_t mode() { return static_cast<std::uint16_t>(0400 + below(0200)); }

  Inode make_inode(FileType type) {
    Inode inode;
    inode.type = type;
    if (type == FileType::whiteout) return inode;
    inode.mode = type == FileType::symlink ? 0777 : mode();
    inode.uid = static_cast<std::uint32_t>(below(3));
    inode.gid = static_cast<std::uint32_t>(below(70000));
    inode.mtime = {static_cast<std::int64_t>(below(1 << 30)), static_cast<std::uint32_t>(below(1000000000))};
    if (type == FileType::symlink) inode.target = "t" + std::to_string(below(10));
    if (type == FileType::char_device) inode.major = 1 + static_cast<std::uint32_t>(below(200));
    if (type == FileType::directory) inode.opaque = one_in(6);
    if (contents_ == Contents::some) add_contents(inode);
    return inode;
  }

  void add_contents(Inode& inode) {
    if (one_in(3)) inode.xattrs["trusted.note"] = std::to_string(below(100));
    if (inode.type != FileType::regular || one_in(2)) return;
    inode.size = 1 + below(100000);
    inode.object = sha256(as_bytes(std::to_string(random_())));
  }

  FileType any_type(int level) {
    static constexpr FileType kTypes[] = {
        FileType::regular,     FileType::regular,   FileType::symlink,   FileType::fifo,      FileType::whiteout,
        FileType::char_device, FileType::directory, FileType::directory, FileType::directory, FileType::directory};
    return kTypes[below(level + 1 < kLevels ? std::size(kTypes) : std::size(kTypes) - 4)];
  }

  void fill(LayerTree& tree, InodeId directory, int level) {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      if (one_in(2)) continue;
      if (!files_.empty() && one_in(8)) {
        const InodeId target = files_[below(files_.size())];
        if (tree.link(directory, name, target)) continue;
      }
      const FileType type = any_type(level);
      const auto added = tree.add(directory, name, make_inode(type));
      if (!added) continue;
      if (type == FileType::directory)
        fill(tree, *added, level + 1);
      else if (type != FileType::whiteout)
        files_.push_back(*added);
    }
  }

  std::mt19937_64 random_;
  Contents contents_;
  std::vector<InodeId> files_;
};

}  // namespace

std::vector<LayerTree> random_stack(std::uint64_t seed, std::size_t layers, Contents contents) {
  std::vector<LayerTree> stack;
  for (std::size_t i = 0; i < layers; ++i) stack.push_back(Maker(seed * 1000 + i, contents).make());
  return stack;
}

}  // namespace dsec::tree::test
