// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/path_walk.h"

#include <algorithm>

#include "composer/sources/internal/entry_path.h"

namespace dsec::composer {

using format::FileType;

Place UnionView::root() const {
  const format::LayerTree& upper = *upper_;
  const bool merged = lower_ != nullptr && !upper.inode(upper.root()).opaque;
  return {upper.root(), merged ? lower_->root() : kNone};
}

InodeId UnionView::lower_child(Place directory, std::string_view name) const {
  return directory.lower == kNone ? kNone : lower_->find(directory.lower, name);
}

Place UnionView::child(Place directory, std::string_view name) const {
  const InodeId lower = lower_child(directory, name);
  const InodeId upper = directory.upper == kNone ? kNone : upper_->find(directory.upper, name);
  if (upper == kNone) return {kNone, lower};
  const format::Inode& inode = upper_->inode(upper);
  if (inode.type == FileType::whiteout) return {};
  const bool merged = inode.type == FileType::directory && !inode.opaque && lower != kNone &&
                      lower_->inode(lower).type == FileType::directory;
  return {upper, merged ? lower : kNone};
}

const format::Inode& UnionView::inode(Place place) const {
  return place.upper != kNone ? upper_->inode(place.upper) : lower_->inode(place.lower);
}

Result<void> PathWalk::follow(const UnionView& view, std::span<const std::string_view> components, Last last) {
  root_ = view.root();
  depth_ = 0;
  symlinks_ = 0;
  pending_.clear();
  for (auto name = components.rbegin(); name != components.rend(); ++name) pending_.push_back({*name, false});
  while (!pending_.empty()) {
    const Pending next = pending_.back();
    pending_.pop_back();
    TRY(advance(view, next, last));
  }
  return {};
}

Result<void> PathWalk::advance(const UnionView& view, Pending next, Last last) {
  if (next.name.empty() || next.name == ".") return {};
  if (next.name == "..") {
    if (depth_ > 0) --depth_;
    return {};
  }
  const Place here = end();
  const Place place = here.exists() ? view.child(here, next.name) : Place{};
  if (!place.exists()) {
    if (next.from_symlink) {
      return fail(ErrorCode::not_found, "a symlink on the way leads to \"{}\", which does not exist",
                  shown(path(next.name)));
    }
    push(place, next.name);
    return {};
  }
  const format::Inode& inode = view.inode(place);
  if (inode.type == FileType::symlink) return enter_symlink(inode.target);
  if (inode.type != FileType::directory && !(last == Last::anything && pending_.empty())) {
    return fail(ErrorCode::invalid, "\"{}\" on the way is no directory but a {}", shown(path(next.name)),
                to_string(inode.type));
  }
  push(place, next.name);
  return {};
}

Result<void> PathWalk::enter_symlink(std::string_view target) {
  if (++symlinks_ > kMaxSymlinks) return fail(ErrorCode::invalid, "more than {} symlinks on the way", kMaxSymlinks);
  if (target.starts_with('/')) depth_ = 0;
  while (!target.empty()) {  // from its end, as pending_ is a stack
    const std::size_t slash = target.rfind('/');
    const std::size_t start = slash == std::string_view::npos ? 0 : slash + 1;
    pending_.push_back({target.substr(start), true});
    target = target.substr(0, start == 0 ? 0 : slash);
  }
  return {};
}

void PathWalk::push(Place place, std::string_view name) {
  if (depth_ == steps_.size()) steps_.emplace_back();
  steps_[depth_].place = place;
  steps_[depth_].name.assign(name);
  ++depth_;
}

std::string PathWalk::path(std::string_view name) const {
  std::string path;
  for (std::size_t i = 0; i < depth_; ++i) path.append(i == 0 ? "" : "/").append(steps_[i].name);
  if (!name.empty()) path.append(path.empty() ? "" : "/").append(name);
  return path;
}

}  // namespace dsec::composer
