// SPDX-License-Identifier: Apache-2.0
#include "tree/env_tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>

#include "base/text.h"
#include "tree/internal/dir_merge.h"

namespace dsec::tree {

using format::ErofsView;
using format::FileType;
using format::InodeView;
using format::XattrView;
using Kind = ListedEntry::Kind;

namespace {

constexpr std::string_view kEscapePrefix = "trusted.overlay.overlay.";

tl::unexpected<Error> stale() { return fail_sys(ESTALE, "no such node"); }

}  // namespace

EnvTree::EnvTree(const Digest& env, XattrView view, std::vector<std::shared_ptr<const store::Layer>> layers)
    : digest_(env), view_(view), layers_(std::move(layers)) {}

Result<std::shared_ptr<const EnvTree>> EnvTree::create(const Digest& env, XattrView view,
                                                       std::vector<std::shared_ptr<const store::Layer>> layers,
                                                       SlotTable& slots, Sharing sharing) {
  auto tree = std::shared_ptr<EnvTree>(new EnvTree(env, view, std::move(layers)));
  tree->sharing_ = sharing;
  std::map<Digest, std::uint32_t> occurrences;
  const bool is_private = sharing == Sharing::none;
  const auto view_number = static_cast<std::uint32_t>(view) + (is_private ? SlotKey::kPrivateView : 0);
  for (std::uint32_t i = 0; i < tree->layers_.size(); ++i) {
    const store::Layer& layer = *tree->layers_[i];
    const std::uint32_t occurrence = occurrences[layer.digest()]++;
    LayerSlots own;
    own.pure = TRY(slots.number({SlotKey::Kind::pure, env, i, view_number}));
    own.shared = is_private ? own.pure : TRY(slots.number({SlotKey::Kind::layer, layer.digest(), occurrence, 0}));
    own.merged = TRY(slots.number({SlotKey::Kind::merged, env, i, view_number}));
    tree->slots_.push_back(own);
    tree->has_xattrs_ = tree->has_xattrs_ || layer.view().has_visible_xattrs();
  }
  for (const DirPart& part : TRY(root_parts(tree->layers_))) tree->root_.push_back(part.place);
  tree->remember(tree->root_);
  return std::shared_ptr<const EnvTree>(std::move(tree));
}

void EnvTree::remember(const Components& components) const {
  auto caches = caches_.lock();
  if (caches->merged.size() >= kMaxCached) caches->merged.clear();
  auto& known = caches->merged[components.front()];
  if (!known) known = std::make_shared<const Components>(components);
}

Result<Attributes> EnvTree::root() const { return attributes_of({root_, root_.front()}); }

// A name in a merged directory: what the uppermost layers say, until one of them hides the rest.
Result<EnvTree::Found> EnvTree::find_merged(const Components& components, std::string_view name) const {
  Found found;
  for (const Place& component : components) {
    const ErofsView& view = image(component.layer);
    const InodeView directory = TRY(view.inode(component.nid));
    const auto nid = view.lookup(directory, name);
    if (!nid && nid.error().code == ErrorCode::not_found) continue;
    if (!nid) return tl::unexpected(nid.error());
    const InodeView inode = TRY(view.inode(*nid));
    if (inode.type == FileType::directory) {
      found.directories.push_back({component.layer, *nid});
      if (TRY(view.is_opaque(inode))) break;
      continue;
    }
    if (!found.directories.empty() || inode.type == FileType::whiteout) break;
    found.place = {component.layer, *nid};
    return found;
  }
  if (found.directories.empty()) return tl::unexpected(Error{ErrorCode::not_found, {}, ENOENT});
  found.place = found.directories.front();
  return found;
}

Result<EnvTree::Found> EnvTree::find(Place directory, Kind kind, std::string_view name) const {
  if (kind == Kind::merged) {
    const auto parts = TRY(components(directory));
    return find_merged(*parts, name);
  }
  return find_merged(Components(1, directory), name);
}

Result<Attributes> EnvTree::lookup(Place directory, Kind kind, std::string_view name) const {
  const Found found = TRY(find(directory, kind, name));
  return attributes_of(found);
}

Result<Attributes> EnvTree::attributes_of(const Found& found) const {
  const bool merged = found.directories.size() > 1 || found.place == root_.front();
  if (merged) remember(found.directories);
  return attributes(found.place, merged ? Kind::merged : Kind::pure);
}

// The layers of a merged directory. After a restart nothing is known of it but its uppermost place: its path in that
// layer then leads to it.
Result<std::shared_ptr<const EnvTree::Components>> EnvTree::components(Place merged) const {
  {
    auto caches = caches_.lock();
    const auto known = caches->merged.find(merged);
    if (known != caches->merged.end()) return known->second;
  }
  const std::string path = TRY(path_in_layer(merged));
  const Found found = TRY(walk(path));
  if (found.directories.empty() || !(found.place == merged)) return stale();
  remember(found.directories);
  return std::make_shared<const Components>(found.directories);
}

// "usr/lib/x" of a directory of a layer, found by going up.
Result<std::string> EnvTree::path_in_layer(Place directory) const {
  const ErofsView& view = image(directory.layer);
  std::string path;
  std::uint64_t nid = directory.nid;
  for (std::size_t depth = 0; nid != view.root_nid(); ++depth) {
    if (depth > format::kMaxDepth) return stale();
    const InodeView inode = TRY(view.inode(nid));
    const std::uint64_t parent_nid = TRY(view.lookup(inode, ".."));
    const InodeView parent_inode = TRY(view.inode(parent_nid));
    std::string name;
    TRY(view.for_each_entry(parent_inode, [&](const format::DirentView& entry) {
      if (entry.nid == nid && entry.name != "." && entry.name != "..") name = entry.name;
      return name.empty();
    }));
    if (name.empty()) return stale();
    path = path.empty() ? name : fmt::format("{}/{}", name, path);
    nid = parent_nid;
  }
  return path;
}

// A path from the root, without following symlinks.
Result<EnvTree::Found> EnvTree::walk(std::string_view path) const {
  Found found{root_, root_.front()};
  if (path.empty()) return found;
  for (const std::string_view name : split(path, '/')) {
    if (found.directories.empty()) return tl::unexpected(Error{ErrorCode::not_found, {}, ENOENT});
    const Components parts = std::move(found.directories);
    found = TRY(find_merged(parts, name));
  }
  return found;
}

Result<Attributes> EnvTree::parent(Place directory) const {
  const std::string path = TRY(path_in_layer(directory));
  const std::size_t slash = path.rfind('/');
  const Found found =
      TRY(walk(slash == std::string::npos ? std::string_view() : std::string_view(path).substr(0, slash)));
  return attributes_of(found);
}

std::vector<DirPart> EnvTree::parts_of(const Components& components) const {
  std::vector<DirPart> parts;
  parts.reserve(components.size());
  for (const Place& place : components) parts.push_back({&image(place.layer), place});
  return parts;
}

Result<std::shared_ptr<const Listing>> EnvTree::list(Place directory, Kind kind) const {
  auto listing = std::make_shared<Listing>();
  const auto add = [&](const ListedEntry& entry, std::span<const DirPart>) { listing->push_back(entry); };
  if (kind == Kind::pure) {
    TRY(merge_directory(std::array{DirPart{&image(directory.layer), directory}}, add));
  } else {
    TRY(merge_directory(parts_of(*TRY(components(directory))), add));
  }
  return std::shared_ptr<const Listing>(std::move(listing));
}

// 2 and one for each subdirectory, as ext4 counts.
Result<std::uint32_t> EnvTree::merged_link_count(Place directory) const {
  {
    auto caches = caches_.lock();
    const auto known = caches->link_counts.find(directory);
    if (known != caches->link_counts.end()) return known->second;
  }
  std::uint32_t count = 2;
  TRY(merge_directory(parts_of(*TRY(components(directory))),
                      [&](const ListedEntry&, std::span<const DirPart> parts) { count += parts.empty() ? 0 : 1; }));
  auto caches = caches_.lock();
  if (caches->link_counts.size() >= kMaxCached) caches->link_counts.clear();
  caches->link_counts[directory] = count;
  return count;
}

Result<Attributes> EnvTree::attributes(Place place, Kind kind) const {
  if (place.layer >= layers_.size()) return stale();
  const InodeView inode = TRY(image(place.layer).inode(place.nid));
  if (inode.type == FileType::whiteout) return stale();
  Attributes attributes = TRY(file_attributes(place, inode));
  if (inode.type != FileType::directory) return attributes;
  attributes.id = NodeId(kind == Kind::merged ? slots_[place.layer].merged : slots_[place.layer].pure, place.nid);
  if (kind == Kind::merged) attributes.nlink = TRY(merged_link_count(place));
  return attributes;
}

Result<Attributes> EnvTree::file_attributes(Place place, const InodeView& inode) const {
  Attributes attributes;
  attributes.type = inode.type;
  attributes.mode = inode.mode;
  attributes.uid = inode.uid;
  attributes.gid = inode.gid;
  attributes.nlink = inode.nlink;
  attributes.size = inode.size;
  attributes.mtime = inode.mtime;
  attributes.major = inode.major;
  attributes.minor = inode.minor;
  if (inode.type == FileType::directory) return attributes;
  if (inode.nlink > 1) attributes.nlink = TRY(visible_names(place, inode));
  show_escaped_device(inode, attributes);
  const bool own = attributes.nlink != inode.nlink || looks_different(place, inode);
  attributes.id = NodeId(own ? slots_[place.layer].pure : slots_[place.layer].shared, place.nid);
  return attributes;
}

// A real 0:0 device would be a whiteout to an overlayfs above: there it is an empty file with the escaped mark.
void EnvTree::show_escaped_device(const InodeView& inode, Attributes& attributes) const {
  const bool device_zero = inode.type == FileType::char_device && inode.major == 0 && inode.minor == 0;
  if (device_zero && view_ == XattrView::overlay) attributes.type = FileType::regular;
}

// Whether a file differs between the plain and the overlay view, so that it cannot be shared by environments.
bool EnvTree::looks_different(Place place, const InodeView& inode) const {
  const ErofsView& view = image(place.layer);
  if (!view.has_escapes() || inode.xattr_bytes == 0) return false;
  bool escaped = false;
  const auto walked = view.for_each_raw_xattr(inode, [&](const std::string& name, std::string_view) {
    escaped = starts_with(name, kEscapePrefix);
    return !escaped;
  });
  return escaped || !walked;
}

// How many names of a hard-linked file the layers above leave to be seen.
Result<std::uint32_t> EnvTree::visible_names(Place place, const InodeView& inode) const {
  if (place.layer + 1 == layers_.size()) return inode.nlink;
  {
    auto caches = caches_.lock();
    const auto known = caches->names.find(place);
    if (known != caches->names.end()) return known->second;
  }
  const HardLinks links = TRY(collect_hard_links(image(place.layer)));
  for (const auto& [nid, paths] : links) {
    std::uint32_t count = 0;
    for (const std::string& path : paths) {
      const auto found = walk(path);
      if (found && found->directories.empty() && found->place == Place{place.layer, nid}) ++count;
    }
    caches_.lock()->names[{place.layer, nid}] = count;
  }
  const auto own = caches_.lock()->names[place];
  return own > 0 ? own : inode.nlink;
}

Result<format::Xattrs> EnvTree::xattrs(Place place) const {
  if (place.layer >= layers_.size()) return stale();
  const ErofsView& view = image(place.layer);
  if (!view.has_visible_xattrs()) return format::Xattrs{};
  const InodeView inode = TRY(view.inode(place.nid));
  return view.xattrs(inode, view_);
}

}  // namespace dsec::tree
