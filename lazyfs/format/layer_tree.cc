// SPDX-License-Identifier: Apache-2.0
#include "format/layer_tree.h"

#include <algorithm>

#include "base/text.h"

namespace dsec::format {

const char* to_string(FileType type) {
  switch (type) {
    case FileType::regular: return "regular";
    case FileType::directory: return "directory";
    case FileType::symlink: return "symlink";
    case FileType::char_device: return "char_device";
    case FileType::block_device: return "block_device";
    case FileType::fifo: return "fifo";
    case FileType::socket: return "socket";
    case FileType::whiteout: return "whiteout";
  }
  return "unknown";
}

LayerTree::LayerTree() : nodes_(1) {
  nodes_[0].inode.type = FileType::directory;
  nodes_[0].inode.mode = 0755;
  nodes_[0].names = 1;
}

InodeId LayerTree::find(InodeId directory, std::string_view name) const {
  const Children& children = nodes_[directory].children;
  const auto found = children.find(name);
  return found == children.end() ? kNone : found->second;
}

Result<void> LayerTree::check_name(InodeId directory, std::string_view name) const {
  if (nodes_[directory].inode.type != FileType::directory) {
    return fail(ErrorCode::invalid, "\"{}\" would be inside something that is no directory", escaped(name));
  }
  if (name.empty() || name == "." || name == "..") return fail(ErrorCode::invalid, "\"{}\" cannot name a file", name);
  if (name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return fail(ErrorCode::invalid, "the name \"{}\" holds a slash or a NUL", escaped(name));
  }
  if (name.size() > kMaxNameBytes) {
    return fail(ErrorCode::invalid, "the name \"{}...\" has {} bytes, at most {} are possible",
                escaped(name.substr(0, 40)), name.size(), kMaxNameBytes);
  }
  return {};
}

Result<InodeId> LayerTree::add(InodeId directory, std::string_view name, Inode inode) {
  TRY(check_name(directory, name));
  const bool is_directory = inode.type == FileType::directory;
  if (nodes_.size() >= kMaxInodes) return fail(ErrorCode::invalid, "more than {} files in one layer", kMaxInodes);
  if (is_directory && nodes_[directory].depth + 1 > kMaxDepth) {
    return fail(ErrorCode::invalid, "directories are nested deeper than {}", kMaxDepth);
  }
  remove(directory, name);
  const auto id = static_cast<InodeId>(nodes_.size());
  Node& node = nodes_.emplace_back();
  node.inode = std::move(inode);
  node.parent = directory;
  node.depth = nodes_[directory].depth + 1;
  node.names = 1;
  nodes_[directory].children.emplace(name, id);
  return id;
}

Result<void> LayerTree::link(InodeId directory, std::string_view name, InodeId target) {
  TRY(check_name(directory, name));
  if (nodes_[target].inode.type == FileType::directory || nodes_[target].inode.type == FileType::whiteout) {
    return fail(ErrorCode::invalid, "\"{}\" cannot be a hard link to a directory or a whiteout", escaped(name));
  }
  if (find(directory, name) == target) return {};
  ++nodes_[target].names;  // before remove(), so that replacing the target's last name keeps it
  remove(directory, name);
  nodes_[directory].children.emplace(name, target);
  return {};
}

void LayerTree::remove(InodeId directory, std::string_view name) {
  Children& children = nodes_[directory].children;
  const auto found = children.find(name);
  if (found == children.end()) return;
  const InodeId id = found->second;
  children.erase(found);
  drop(id);
}

void LayerTree::drop(InodeId id) {
  std::vector<InodeId> waiting{id};  // a stack of our own: depth is the input's choice
  while (!waiting.empty()) {
    Node& node = nodes_[waiting.back()];
    waiting.pop_back();
    if (--node.names > 0) continue;
    for (const auto& [name, child] : node.children) waiting.push_back(child);
    node.children.clear();
    node.inode = Inode{};
  }
}

std::uint32_t LayerTree::link_count(InodeId id) const {
  const Node& node = nodes_[id];
  if (node.inode.type != FileType::directory) return node.names;
  const auto subdirectories = std::count_if(node.children.begin(), node.children.end(), [&](const auto& child) {
    return nodes_[child.second].inode.type == FileType::directory;
  });
  return static_cast<std::uint32_t>(2 + subdirectories);
}

}  // namespace dsec::format
