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
#include "base/metrics.h"
#include "base/result.h"
#include "tree/content.h"
#include "tree/env_tree.h"
#include "tree/node.h"
#include "tree/slots.h"

namespace dsec::tree {

// What one layer has cost since it was first attached.
struct LayerMeter {
  Counter store_bytes;  // read from the store
  Counter read_bytes;   // asked for by readers
  Counter reads;
};

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
  explicit Namespace(std::unique_ptr<ContentReader> reader) : reader_(std::move(reader)) {}

  // Shows an environment as `name` in the root. The same name again is no error.
  void attach(const std::string& name, std::shared_ptr<const EnvTree> env);
  // Takes it away. Requests under way finish.
  void detach(const std::string& name);
  [[nodiscard]] std::vector<std::string> attached() const;

  [[nodiscard]] Result<Attributes> lookup(NodeId parent, std::string_view name) const;
  [[nodiscard]] Result<Attributes> attributes(NodeId node) const;
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

  // Counters of a layer that is or was attached; null otherwise.
  [[nodiscard]] std::shared_ptr<const LayerMeter> meter(const Digest& layer) const;

 private:
  // What a slot stands for: an environment and a layer of it. For shared slots it is any environment with the layer.
  struct Target {
    std::shared_ptr<const EnvTree> env;
    std::uint32_t layer = 0;
    SlotKey::Kind kind = SlotKey::Kind::layer;
    std::shared_ptr<LayerMeter> meter;
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
    std::unordered_map<Digest, std::shared_ptr<LayerMeter>> meters;
  };
  void set_slots(State& state, const std::shared_ptr<const EnvTree>& env);

  std::unique_ptr<ContentReader> reader_;
  mutable std::shared_mutex mutex_;
  State state_;  // guarded by mutex_: read by every request, written by attach and detach
};

}  // namespace dsec::tree
