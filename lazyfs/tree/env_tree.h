// SPDX-License-Identifier: Apache-2.0
// One environment as one tree: the layers stitched together on demand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/guarded.h"
#include "base/result.h"
#include "format/env.h"
#include "format/erofs.h"
#include "store/layer_cache.h"
#include "tree/hard_links.h"
#include "tree/node.h"
#include "tree/slots.h"

namespace dsec::tree {

// An inode of a layer of an environment.
struct Place {
  std::uint32_t layer = 0;  // index from the bottom
  std::uint64_t nid = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// One entry of a directory. `name` points into a layer's image and lives as long as the tree.
struct ListedEntry {
  std::string_view name;
  Place place;  // of a merged directory: its uppermost one
  enum class Kind : std::uint8_t { pure, merged } kind = Kind::pure;
  std::uint8_t file_type = 0;  // a DT_*-like hint: the FT_* of the image
};
struct DirPart;                            // internal/dir_merge.h
using Listing = std::vector<ListedEntry>;  // sorted by name, without "." and ".."

// The tree of an environment. A directory that exists in one layer only is *pure*: it is served from that layer's image
// as it stands. A directory that several layers have is *merged*, name by name, when it is used. Whiteouts and opaque
// marks act and never show (kernel: Documentation/filesystems/overlayfs.rst). Node numbers follow tree/node.h: files
// are shared with all environments that have the layer, directories belong to this one; two unrelated paths of an
// environment never share a number. Immutable but for caches; thread-safe. Errors: `not_found` for absent names,
// `corrupt` for damaged images, `io` with ESTALE for a node that is none of this environment's.
class EnvTree {
 public:
  // Whether files have the numbers, and so the page cache, of all environments with their layer. With `none` every node
  // is of this tree alone: who reads it is seen to, whatever others have read.
  enum class Sharing : std::uint8_t { layers, none };

  // `layers` from bottom to top. Asks the slot table for the environment's slots.
  static Result<std::shared_ptr<const EnvTree>> create(const Digest& env, format::XattrView view,
                                                       std::vector<std::shared_ptr<const store::Layer>> layers,
                                                       SlotTable& slots, Sharing sharing = Sharing::layers);

  [[nodiscard]] const Digest& digest() const { return digest_; }
  [[nodiscard]] format::XattrView xattr_view() const { return view_; }
  [[nodiscard]] const std::vector<std::shared_ptr<const store::Layer>>& layers() const { return layers_; }
  [[nodiscard]] bool has_xattrs() const { return has_xattrs_; }
  [[nodiscard]] Sharing sharing() const { return sharing_; }

  // Slots of each layer: files shared with other environments, pure directories and own files, merged directories.
  struct LayerSlots {
    std::uint32_t shared = 0;
    std::uint32_t pure = 0;
    std::uint32_t merged = 0;
  };
  [[nodiscard]] const std::vector<LayerSlots>& slots() const { return slots_; }

  [[nodiscard]] Result<Attributes> root() const;

  // The nodes below are given by their place and, for directories, by whether they are merged, as their slot says.
  [[nodiscard]] Result<Attributes> lookup(Place directory, ListedEntry::Kind kind, std::string_view name) const;
  [[nodiscard]] Result<std::shared_ptr<const Listing>> list(Place directory, ListedEntry::Kind kind) const;
  [[nodiscard]] Result<Attributes> attributes(Place place, ListedEntry::Kind kind) const;
  // The directory that holds a directory; the root's is the root.
  [[nodiscard]] Result<Attributes> parent(Place directory) const;
  [[nodiscard]] Result<format::Xattrs> xattrs(Place place) const;

 private:
  EnvTree(const Digest& env, format::XattrView view, std::vector<std::shared_ptr<const store::Layer>> layers);
  using Components = std::vector<Place>;  // of a merged directory, top to bottom

  static constexpr std::size_t kMaxCached = 16384;

  struct Found {
    Components directories;  // when it is a directory
    Place place;
  };
  [[nodiscard]] const format::ErofsView& image(std::uint32_t layer) const { return layers_[layer]->view(); }
  [[nodiscard]] Result<std::shared_ptr<const Components>> components(Place merged) const;
  [[nodiscard]] Result<Found> find_merged(const Components& components, std::string_view name) const;
  [[nodiscard]] Result<Found> find(Place directory, ListedEntry::Kind kind, std::string_view name) const;
  [[nodiscard]] Result<std::string> path_in_layer(Place directory) const;
  [[nodiscard]] Result<Found> walk(std::string_view path) const;
  [[nodiscard]] Result<Attributes> attributes_of(const Found& found) const;
  [[nodiscard]] std::vector<DirPart> parts_of(const Components& components) const;
  [[nodiscard]] Result<std::uint32_t> merged_link_count(Place directory) const;
  [[nodiscard]] Result<Attributes> file_attributes(Place place, const format::InodeView& inode) const;
  [[nodiscard]] Result<std::uint32_t> visible_names(Place place, const format::InodeView& inode) const;
  [[nodiscard]] bool looks_different(Place place, const format::InodeView& inode) const;
  void remember(const Components& components) const;
  void show_escaped_device(const format::InodeView& inode, Attributes& attributes) const;

  struct PlaceHash {
    std::size_t operator()(const Place& place) const noexcept {
      return std::hash<std::uint64_t>()(place.nid << 9 ^ place.layer);
    }
  };

  Digest digest_;
  format::XattrView view_;
  std::vector<std::shared_ptr<const store::Layer>> layers_;
  std::vector<LayerSlots> slots_;
  Sharing sharing_ = Sharing::layers;
  bool has_xattrs_ = false;
  Components root_;

  struct Caches {
    // Of merged directories: their layers and link counts. Each is emptied when it holds kMaxCached; what is lost is
    // found again, the layers by the way up to the root.
    std::unordered_map<Place, std::shared_ptr<const Components>, PlaceHash> merged;
    std::unordered_map<Place, std::uint32_t, PlaceHash> link_counts;
    std::unordered_map<Place, std::uint32_t, PlaceHash> names;  // of hard-linked files: how many of their names show
  };
  mutable Guarded<Caches> caches_;
};

}  // namespace dsec::tree
