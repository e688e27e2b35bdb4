// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/layer_builder.h"

#include <algorithm>

#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/inode_limits.h"

namespace dsec::composer {

using format::FileType;
using format::Inode;

namespace {

Error named(Error error, std::string_view path) {
  if (error.code == ErrorCode::not_found) error.code = ErrorCode::invalid;  // a broken archive, nothing is absent here
  return std::move(error).within(fmt::format("entry \"{}\"", shown(path)));
}

// A directory that stands for one below, or that nothing describes.
Inode implied_directory(const format::LayerTree* below, InodeId lower) {
  Inode inode{.type = FileType::directory, .mode = 0755};
  if (lower != kNone && below->inode(lower).type == FileType::directory) inode = below->inode(lower);
  inode.opaque = false;
  return inode;
}

}  // namespace

LayerBuilder::LayerBuilder(format::LayerTree& layer, const MergedTree* below, BuilderOptions options)
    : layer_(&layer),
      below_(below == nullptr ? nullptr : &below->tree()),
      options_(std::move(options)),
      view_(*layer_, below_) {}

Result<LayerBuilder> LayerBuilder::create(format::LayerTree& layer, const MergedTree* below, BuilderOptions options) {
  LayerBuilder builder(layer, below, std::move(options));
  if (builder.below_ != nullptr) layer.inode(layer.root()) = builder.implied_from_below(format::LayerTree::root());
  if (Result<void> entered = builder.enter_target_dir(); !entered) {
    return tl::unexpected(
        std::move(entered).error().within(fmt::format("target directory \"{}\"", shown(builder.options_.target_dir))));
  }
  return builder;
}

Inode LayerBuilder::implied_from_below(InodeId lower) const {
  Inode inode = implied_directory(below_, lower);
  if (options_.implied_times == ImpliedTimes::zero) inode.mtime = {};
  return inode;
}

Result<void> LayerBuilder::enter_target_dir() {
  if (options_.target_dir.empty()) return {};
  components_.clear();
  TRY(split_entry_path(options_.target_dir, components_));
  TRY(walk_.follow(view_, components_));
  for (const PathWalk::Step& step : walk_.steps()) target_names_.push_back(step.name);
  TRY(make_walked_directories());
  return {};
}

// Walks to the directory that `path` lies in and returns the last component, empty for the source's root itself.
Result<std::string_view> LayerBuilder::walk_to_parent(std::string_view path) {
  components_.assign(target_names_.begin(), target_names_.end());
  TRY(split_entry_path(path, components_));
  std::string_view last;
  if (components_.size() > target_names_.size()) {
    last = components_.back();
    components_.pop_back();
  }
  TRY(walk_.follow(view_, components_));
  TRY(check_contained());
  return last;
}

Result<void> LayerBuilder::walk_to(std::string_view directory) {
  components_.assign(target_names_.begin(), target_names_.end());
  TRY(split_entry_path(directory, components_));
  TRY(walk_.follow(view_, components_));
  return check_contained();
}

Result<void> LayerBuilder::check_contained() {
  const auto steps = walk_.steps();
  const bool inside = steps.size() >= target_names_.size() &&
                      std::equal(target_names_.begin(), target_names_.end(), steps.begin(),
                                 [](const std::string& name, const PathWalk::Step& step) { return name == step.name; });
  if (inside) return {};
  return fail(ErrorCode::invalid, "a symlink leads it to \"{}\", out of the target directory \"{}\"",
              shown(walk_.path()), shown(options_.target_dir));
}

// Gives the layer every directory of the walk that it has not yet; returns the last.
Result<Place> LayerBuilder::make_walked_directories() {
  Place parent = view_.root();
  for (PathWalk::Step& step : walk_.steps()) {
    if (step.place.upper == kNone) {
      step.place.upper = TRY(put_directory(parent, step.name, implied_from_below(step.place.lower)));
      implied_.insert(step.place.upper);
    }
    parent = step.place;
  }
  return parent;
}

Result<format::InodeId> LayerBuilder::add(std::string_view path, Inode inode) {
  Result<InodeId> added = try_add(path, std::move(inode));
  if (!added) return tl::unexpected(named(std::move(added).error(), path));
  return added;
}

Result<format::InodeId> LayerBuilder::try_add(std::string_view path, Inode inode) {
  TRY(check_inode(inode));
  const std::string_view name = TRY(walk_to_parent(path));
  const bool is_directory = inode.type == FileType::directory;
  if (name.empty() && !is_directory) {
    return fail(ErrorCode::invalid, "the root can only be a directory, not a {}", to_string(inode.type));
  }
  const Place parent = TRY(make_walked_directories());
  if (name.empty()) {
    inode.opaque = layer_->inode(parent.upper).opaque;
    layer_->inode(parent.upper) = std::move(inode);
    implied_.erase(parent.upper);
    return parent.upper;
  }
  if (is_directory) return put_directory(parent, name, std::move(inode));
  return layer_->add(parent.upper, name, std::move(inode));
}

Result<format::InodeId> LayerBuilder::put_directory(Place parent, std::string_view name, Inode inode) {
  const Place existing = view_.child(parent, name);
  if (existing.upper != kNone && layer_->inode(existing.upper).type == FileType::directory) {
    inode.opaque = layer_->inode(existing.upper).opaque;
    layer_->inode(existing.upper) = std::move(inode);
    implied_.erase(existing.upper);
    return existing.upper;
  }
  // What the layer had here, a whiteout or a file, took the lower directory away: it does not come back.
  inode.opaque = layer_->find(parent.upper, name) != kNone && view_.lower_child(parent, name) != kNone;
  hides_below_ |= inode.opaque;
  return layer_->add(parent.upper, name, std::move(inode));
}

void LayerBuilder::set_content(InodeId file, std::uint64_t size_bytes, ContentSink::Ticket ticket) {
  layer_->inode(file).size = size_bytes;
  contents_.emplace_back(file, ticket);
}

Result<void> LayerBuilder::link(std::string_view path, std::string_view target) {
  Result<void> linked = try_link(path, target);
  if (!linked) return tl::unexpected(named(std::move(linked).error(), path));
  return {};
}

Result<void> LayerBuilder::try_link(std::string_view path, std::string_view target) {
  const std::string context = fmt::format("hard link to \"{}\"", shown(target));
  const std::string_view target_name = TRY_IN(context, walk_to_parent(target));
  const Place source = target_name.empty() ? walk_.end() : view_.child(walk_.end(), target_name);
  if (!source.exists()) return fail(ErrorCode::invalid, "{}: there is no such file at this point", context);
  if (view_.inode(source).type == FileType::directory) {
    return fail(ErrorCode::invalid, "{}: that is a directory", context);
  }
  InodeId id = source.upper;
  if (id == kNone) {
    const Place parent = TRY(make_walked_directories());
    id = TRY(layer_->add(parent.upper, target_name, Inode(below_->inode(source.lower))));
  }
  const std::string_view name = TRY(walk_to_parent(path));
  if (name.empty()) return fail(ErrorCode::invalid, "the root can only be a directory, not a hard link");
  const Place parent = TRY(make_walked_directories());
  return layer_->link(parent.upper, name, id);
}

Result<void> LayerBuilder::remove_below(std::string_view path) {
  Result<void> removed = try_remove(path);
  if (!removed) return tl::unexpected(named(std::move(removed).error(), path));
  return {};
}

Result<void> LayerBuilder::try_remove(std::string_view path) {
  std::vector<std::string_view> names;
  TRY(split_entry_path(path, names));
  if (names.empty()) return fail(ErrorCode::invalid, "the root cannot be removed");
  const Result<std::string_view> walked = walk_to_parent(path);
  if (!walked) return {};  // the way there does not exist: there is nothing to remove
  const std::string_view name = *walked;
  if (view_.lower_child(walk_.end(), name) == kNone) return {};
  const Place parent = TRY(make_walked_directories());
  const InodeId own = layer_->find(parent.upper, name);
  if (own != kNone) {
    if (layer_->inode(own).type == FileType::directory) hide_below_directory(own);
    return {};
  }
  hides_below_ = true;
  TRY(layer_->add(parent.upper, name, Inode{.type = FileType::whiteout}));
  return {};
}

// The lower directory is removed and the layer has one of its own there: that one is new.
void LayerBuilder::hide_below_directory(InodeId directory) {
  if (implied_.contains(directory)) layer_->inode(directory) = implied_directory(nullptr, kNone);
  layer_->inode(directory).opaque = true;
  hides_below_ = true;
}

Result<void> LayerBuilder::make_opaque(std::string_view directory) {
  if (!walk_to(directory) || walk_.end().lower == kNone) {
    // Nothing below can be hidden. A bad name is still an error.
    components_.clear();
    const Result<void> split = split_entry_path(directory, components_);
    if (!split) return tl::unexpected(named(split.error(), directory));
    return {};
  }
  Result<Place> made = make_walked_directories();
  if (!made) return tl::unexpected(named(std::move(made).error(), directory));
  layer_->inode(made->upper).opaque = true;
  hides_below_ = true;
  return {};
}

Result<void> LayerBuilder::resolve(const std::vector<Digest>& digests) {
  for (const auto& [file, ticket] : contents_) {
    if (ticket >= digests.size()) {
      return fail(ErrorCode::internal, "no digest for content {} of {}", ticket, digests.size());
    }
    if (layer_->link_count(file) > 0) layer_->inode(file).object = digests[ticket];  // else a later entry replaced it
  }
  contents_.clear();
  if (hides_below_) prune();
  return {};
}

void LayerBuilder::prune() {
  layer_->inode(layer_->root()).opaque &= below_ != nullptr;
  std::vector<Place> waiting{view_.root()};
  while (!waiting.empty()) {
    const Place directory = waiting.back();
    waiting.pop_back();
    prune_directory(directory, waiting);
  }
}

void LayerBuilder::prune_directory(Place directory, std::vector<Place>& waiting) {
  std::vector<std::string> idle;
  for (const auto& [name, id] : layer_->children(directory.upper)) {
    Inode& inode = layer_->inode(id);
    const InodeId lower = view_.lower_child(directory, name);
    if (inode.type == FileType::whiteout && lower == kNone) idle.push_back(name);
    if (inode.type != FileType::directory) continue;
    inode.opaque &= lower != kNone && below_->inode(lower).type == FileType::directory;
    waiting.push_back(view_.child(directory, name));
  }
  for (const std::string& name : idle) layer_->remove(directory.upper, name);
}

}  // namespace dsec::composer
