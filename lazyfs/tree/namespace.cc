// SPDX-License-Identifier: Apache-2.0
#include "tree/namespace.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

namespace dsec::tree {

using format::FileType;
using format::InodeView;

namespace {

tl::unexpected<Error> stale() { return fail_sys(ESTALE, "no such node"); }
tl::unexpected<Error> absent() { return tl::unexpected(Error{ErrorCode::not_found, {}, ENOENT}); }

FileType type_of_hint(std::uint8_t hint) {
  static constexpr FileType kTypes[] = {FileType::regular,     FileType::regular,      FileType::directory,
                                        FileType::char_device, FileType::block_device, FileType::fifo,
                                        FileType::socket,      FileType::symlink};
  return hint < std::size(kTypes) ? kTypes[hint] : FileType::regular;
}

}  // namespace

void Namespace::set_slots(State& state, const std::shared_ptr<const EnvTree>& env) {
  const bool is_private = env->sharing() == EnvTree::Sharing::none;
  const auto own_observers = std::make_shared<ReadObservers>();
  for (std::uint32_t i = 0; i < env->layers().size(); ++i) {
    const EnvTree::LayerSlots& slots = env->slots()[i];
    const Digest& layer = env->layers()[i]->digest();
    auto& meter = is_private ? state.privates[env->slots()[0].pure] : state.meters[layer];
    if (!meter) meter = std::make_shared<ReadMeter>();
    auto observers = own_observers;
    if (!is_private) {
      auto& known = state.observers[layer];
      if (!known) known = std::make_shared<ReadObservers>();
      observers = known;
    }
    state.slots[slots.shared] = {env, i, SlotKey::Kind::layer, meter, observers};
    state.slots[slots.pure] = {env, i, SlotKey::Kind::pure, meter, observers};
    state.slots[slots.merged] = {env, i, SlotKey::Kind::merged, meter, observers};
  }
}

void Namespace::attach(const std::string& name, std::shared_ptr<const EnvTree> env) {
  const std::unique_lock lock(mutex_);
  if (!state_.envs.emplace(name, env).second) return;
  set_slots(state_, env);
}

void Namespace::detach(const std::string& name) {
  const std::unique_lock lock(mutex_);
  const auto found = state_.envs.find(name);
  if (found == state_.envs.end()) return;
  const std::shared_ptr<const EnvTree> gone = found->second;
  state_.envs.erase(found);
  if (gone->sharing() == EnvTree::Sharing::none) state_.privates.erase(gone->slots()[0].pure);
  for (auto it = state_.slots.begin(); it != state_.slots.end();) {
    it = it->second.env == gone ? state_.slots.erase(it) : std::next(it);
  }
  // Slots that it shared with others go on through one of them.
  for (const auto& [other_name, other] : state_.envs) {
    for (const auto& slots : other->slots()) {
      if (state_.slots.find(slots.shared) == state_.slots.end()) {
        set_slots(state_, other);
        break;
      }
    }
  }
}

std::vector<std::string> Namespace::attached() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, env] : state_.envs) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<Namespace::Found> Namespace::find(NodeId node) const {
  const std::shared_lock lock(mutex_);
  const auto found = state_.slots.find(node.slot());
  if (found == state_.slots.end()) return stale();
  return Found{found->second, {found->second.layer, node.nid()}};
}

Attributes Namespace::root_attributes() const {
  Attributes attributes;
  attributes.id = kRootNode;
  attributes.type = FileType::directory;
  attributes.mode = 0755;
  attributes.nlink = 2;
  return attributes;
}

Result<Attributes> Namespace::lookup(NodeId parent, std::string_view name, store::Deadline deadline) const {
  if (is_of_objects(parent)) return objects_->lookup(parent, name, deadline);
  if (parent == kRootNode) {
    if (objects_ && name == kObjectsName) return objects_->attributes(kObjectsNode, deadline);
    const std::shared_lock lock(mutex_);
    const auto env = state_.envs.find(std::string(name));
    return env == state_.envs.end() ? absent() : env->second->root();
  }
  const Found found = TRY(find(parent));
  return found.target.env->lookup(found.place, found.directory_kind(), name);
}

Result<Attributes> Namespace::attributes(NodeId node, store::Deadline deadline) const {
  if (is_of_objects(node)) return objects_->attributes(node, deadline);
  if (node == kRootNode) return root_attributes();
  const Found found = TRY(find(node));
  Attributes attributes = TRY(found.target.env->attributes(found.place, found.directory_kind()));
  if (attributes.type != FileType::directory && !(attributes.id == node)) {
    // A shared slot answered through an environment in which the file looks different: as the layer alone has it.
    const InodeView inode = TRY(found.target.env->layers()[found.place.layer]->view().inode(found.place.nid));
    attributes.nlink = inode.nlink;
    attributes.id = node;
  }
  return attributes;
}

Result<std::string> Namespace::symlink_target(NodeId node) const {
  const Found found = TRY(find(node));
  const format::ErofsView& view = found.target.env->layers()[found.place.layer]->view();
  const InodeView inode = TRY(view.inode(found.place.nid));
  if (inode.type != FileType::symlink) return fail_sys(EINVAL, "no symlink");
  return view.symlink_target(inode);
}

Result<format::Xattrs> Namespace::xattrs(NodeId node) const {
  if (node == kRootNode || is_of_objects(node)) return format::Xattrs{};
  const Found found = TRY(find(node));
  return found.target.env->xattrs(found.place);
}

Result<std::shared_ptr<const DirectoryListing>> Namespace::open_directory(NodeId node) const {
  auto listing = std::make_shared<DirectoryListing>();
  listing->self_ = node;
  listing->parent_ = kRootNode;
  listing->names_ = {".", ".."};
  if (node == kRootNode) {
    for (std::string& name : attached()) listing->names_.push_back(std::move(name));
    return std::shared_ptr<const DirectoryListing>(std::move(listing));
  }
  if (is_of_objects(node)) {
    if (is_object_directory(node)) listing->parent_ = kObjectsNode;
    return std::shared_ptr<const DirectoryListing>(std::move(listing));
  }
  const Found found = TRY(find(node));
  listing->env_ = found.target.env;
  listing->listing_ = TRY(found.target.env->list(found.place, found.directory_kind()));
  const Attributes root = TRY(found.target.env->root());
  if (!(root.id == node)) listing->parent_ = TRY(found.target.env->parent(found.place)).id;
  return std::shared_ptr<const DirectoryListing>(std::move(listing));
}

Result<DirectoryEntry> Namespace::entry(const DirectoryListing& listing, std::size_t index, Detail detail) const {
  DirectoryEntry entry;
  if (index < listing.names_.size()) {
    entry.name = listing.names_[index];
    entry.attributes.type = FileType::directory;
    entry.attributes.id = index == 0 ? listing.self_ : listing.parent_;
    if (index >= 2) entry.attributes = TRY(lookup(kRootNode, entry.name));
    return entry;
  }
  const ListedEntry& listed = (*listing.listing_)[index - listing.names_.size()];
  entry.name = listed.name;
  // Without details the number may be the shared one of a file that has its own: it is a hint, as d_ino is.
  const EnvTree::LayerSlots& slots = listing.env_->slots()[listed.place.layer];
  entry.attributes.type = type_of_hint(listed.file_type);
  if (detail == Detail::full) {
    entry.attributes = TRY(listing.env_->attributes(listed.place, listed.kind));
  } else if (entry.attributes.type != FileType::directory) {
    entry.attributes.id = NodeId(slots.shared, listed.place.nid);
  } else {
    entry.attributes.id =
        NodeId(listed.kind == ListedEntry::Kind::merged ? slots.merged : slots.pure, listed.place.nid);
  }
  return entry;
}

Result<Namespace::OpenFile> Namespace::open_file(NodeId node) const {
  Found found = TRY(find(node));
  const format::ErofsView& view = found.target.env->layers()[found.place.layer]->view();
  const InodeView inode = TRY(view.inode(found.place.nid));
  if (inode.type == FileType::directory) return fail_sys(EISDIR, "a directory is no file");
  if (inode.type != FileType::regular) return OpenFile{std::move(found), 0, {}};
  const Digest object = TRY(view.object(inode));
  return OpenFile{std::move(found), inode.size, object};
}

Result<std::vector<Slice>> Namespace::read(NodeId file, std::uint64_t offset, std::size_t length,
                                           store::Deadline deadline) const {
  if (is_of_objects(file)) return objects_->read(file, offset, length, deadline);
  const OpenFile open = TRY(open_file(file));
  const Target& target = open.found.target;
  const store::CostScope scope;
  auto slices = TRY(reader_->read(*target.env->layers()[target.layer], open.object, open.size, offset, length, deadline,
                                  target.meter->store_bytes, target.observers.get()));
  target.meter->reads.add();
  target.meter->add(scope.cost());
  for (const Slice& slice : slices) target.meter->read_bytes.add(slice.length);
  return slices;
}

Result<std::uint64_t> Namespace::seek(NodeId file, std::uint64_t offset, ContentReader::Seek what,
                                      store::Deadline deadline) const {
  if (is_of_objects(file)) return objects_->seek(file, offset, what, deadline);
  const OpenFile open = TRY(open_file(file));
  const Target& target = open.found.target;
  return reader_->seek(*target.env->layers()[target.layer], open.object, open.size, offset, what, deadline,
                       target.meter->store_bytes, target.observers.get());
}

std::shared_ptr<const ReadMeter> Namespace::private_meter(const std::string& name) const {
  const std::shared_lock lock(mutex_);
  const auto env = state_.envs.find(name);
  if (env == state_.envs.end()) return nullptr;
  const auto found = state_.privates.find(env->second->slots()[0].pure);
  return found == state_.privates.end() ? nullptr : found->second;
}

// Each once; those of a private tree are one.
std::vector<std::shared_ptr<ReadObservers>> Namespace::observers_of(const std::string& name) const {
  const std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<ReadObservers>> found;
  const auto env = state_.envs.find(name);
  if (env == state_.envs.end()) return found;
  for (const auto& slots : env->second->slots()) {
    const auto& observers = state_.slots.at(slots.pure).observers;
    if (std::find(found.begin(), found.end(), observers) == found.end()) found.push_back(observers);
  }
  return found;
}

void Namespace::observe(const std::string& name, const std::shared_ptr<ReadObserver>& observer) {
  for (const auto& observers : observers_of(name)) observers->add(observer);
}

void Namespace::unobserve(const std::string& name, const std::shared_ptr<ReadObserver>& observer) {
  for (const auto& observers : observers_of(name)) observers->remove(observer);
}

std::shared_ptr<const ReadMeter> Namespace::meter(const Digest& layer) const {
  const std::shared_lock lock(mutex_);
  const auto found = state_.meters.find(layer);
  return found == state_.meters.end() ? nullptr : found->second;
}

}  // namespace dsec::tree
