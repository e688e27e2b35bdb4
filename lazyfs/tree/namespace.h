// SPDX-License-Identifier: Apache-2.0
// Everything that one lazyfs mount shows: attached environments as directories named by their digests.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/guarded.h"
#include "base/result.h"
#include "tree/content.h"
#include "tree/env_tree.h"
#include "tree/facts.h"
#include "tree/meter.h"
#include "tree/node.h"
#include "tree/objects.h"
#include "tree/read_observers.h"
#include "tree/slots.h"

namespace dsec::tree {

struct DirectoryEntry {
  std::string_view name;  // lives as long as the listing
  Attributes attributes;  // complete only when asked for
};

// A directory as it is read: fixed once opened, so an index into it is a place to go on from. Holds its environment.
class DirectoryListing {
 public:
  [[nodiscard]] std::size_t size() const { return names_.size() + (listing_ ? listing_->size() : 0); }

 private:
  friend class Namespace;
  NodeId self_;
  NodeId parent_;
  std::shared_ptr<const EnvTree> env_;
  std::shared_ptr<const Listing> listing_;
  std::vector<std::string> names_;  // of the mount's root
};

// The tree of a mount: node numbers in, values out; knows nothing of FUSE. Environments come and go; a node of one that
// is gone is ESTALE. Thread-safe. Errors are those of EnvTree and ContentReader.
class Namespace {
 public:
  // The name of the directory of objects in the root. Listings do not show it.
  static constexpr std::string_view kObjectsName = ".objects";

  explicit Namespace(std::unique_ptr<ContentReader> reader, std::shared_ptr<ObjectTable> objects = nullptr)
      : reader_(std::move(reader)), objects_(std::move(objects)) {}

  // Null when this mount has none.
  [[nodiscard]] const std::shared_ptr<ObjectTable>& objects() const { return objects_; }

  // Shows an environment as `name` in the root. The same name again is no error.
  void attach(const std::string& name, std::shared_ptr<const EnvTree> env);
  // Takes it away. Requests under way finish.
  void detach(const std::string& name);
  [[nodiscard]] std::vector<std::string> attached() const;

  // Reads from the store only for objects (below kObjectsName): `deadline` is theirs.
  [[nodiscard]] Result<Attributes> lookup(NodeId parent, std::string_view name,
                                          store::Deadline deadline = store::Deadline::max()) const;
  [[nodiscard]] Result<Attributes> attributes(NodeId node, store::Deadline deadline = store::Deadline::max()) const;
  [[nodiscard]] Result<std::string> symlink_target(NodeId node) const;
  [[nodiscard]] Result<format::Xattrs> xattrs(NodeId node) const;

  // "." and ".." come first.
  [[nodiscard]] Result<std::shared_ptr<const DirectoryListing>> open_directory(NodeId node) const;
  enum class Detail { type_only, full };
  [[nodiscard]] Result<DirectoryEntry> entry(const DirectoryListing& listing, std::size_t index, Detail detail) const;

  [[nodiscard]] Result<std::vector<Slice>> read(NodeId file, std::uint64_t offset, std::size_t length,
                                                store::Deadline deadline) const;
  [[nodiscard]] Result<std::uint64_t> seek(NodeId file, std::uint64_t offset, ContentReader::Seek what,
                                           store::Deadline deadline) const;

  // What is known of a node; ENODATA (`io`) for those that belong to no environment and are no object. Asks the store
  // for the recipe of a large file when it is not here.
  [[nodiscard]] Result<NodeFacts> facts(NodeId node, store::Deadline deadline) const;
  // ESTALE for what belongs to no environment.
  [[nodiscard]] Result<Located> locate(NodeId node) const;

  // Counters of a layer that is or was attached; null otherwise.
  [[nodiscard]] std::shared_ptr<const ReadMeter> meter(const Digest& layer) const;
  // Counters of a tree that shares nothing, while it is attached; its layers' do not have what it read.
  [[nodiscard]] std::shared_ptr<const ReadMeter> private_meter(const std::string& name) const;

  // Who watches the readers of an attached tree: of all its layers, and so of all trees with one of them, unless it
  // shares nothing. Until unobserve() or, for what is shared, as long as the mount.
  void observe(const std::string& name, const std::shared_ptr<ReadObserver>& observer);
  void unobserve(const std::string& name, const std::shared_ptr<ReadObserver>& observer);

 private:
  // What a slot stands for: an environment and a layer of it. For shared slots it is any environment with the layer.
  struct Target {
    std::shared_ptr<const EnvTree> env;
    std::uint32_t layer = 0;
    SlotKey::Kind kind = SlotKey::Kind::layer;
    std::shared_ptr<ReadMeter> meter;
    std::shared_ptr<ReadObservers> observers;
  };
  struct Found {
    Target target;
    Place place;
    [[nodiscard]] ListedEntry::Kind directory_kind() const {
      return target.kind == SlotKey::Kind::merged ? ListedEntry::Kind::merged : ListedEntry::Kind::pure;
    }
  };
  [[nodiscard]] Result<Found> find(NodeId node) const;
  struct OpenFile {
    Found found;
    std::uint64_t size;
    Digest object;
  };
  [[nodiscard]] Result<OpenFile> open_file(NodeId node) const;
  [[nodiscard]] Attributes root_attributes() const;

  struct State {
    std::unordered_map<std::string, std::shared_ptr<const EnvTree>> envs;
    std::unordered_map<std::uint32_t, Target> slots;
    std::unordered_map<Digest, std::shared_ptr<ReadMeter>> meters;           // of layers
    std::unordered_map<Digest, std::shared_ptr<ReadObservers>> observers;    // of layers
    std::unordered_map<std::uint32_t, std::shared_ptr<ReadMeter>> privates;  // of trees, by their first slot
  };
  [[nodiscard]] std::vector<std::shared_ptr<ReadObservers>> observers_of(const std::string& name) const;
  void set_slots(State& state, const std::shared_ptr<const EnvTree>& env);

  // Whether a node is of the directory of objects.
  [[nodiscard]] bool is_of_objects(NodeId node) const {
    return objects_ && (node.is_object() || node == kObjectsNode || is_object_directory(node));
  }

  std::unique_ptr<ContentReader> reader_;
  std::shared_ptr<ObjectTable> objects_;  // null: this mount has none
  mutable std::shared_mutex mutex_;
  State state_;  // guarded by mutex_: read by every request, written by attach and detach
};

}  // namespace dsec::tree
