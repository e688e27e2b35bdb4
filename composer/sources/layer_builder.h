// SPDX-License-Identifier: Apache-2.0
// One layer, built from the entries of an archive or a directory as container runtimes would unpack them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "composer/content_sink.h"
#include "composer/sources/internal/path_walk.h"
#include "composer/sources/merged_tree.h"
#include "format/layer_tree.h"

namespace dsec::composer {

// The mtime of directories that the source does not name and that exist below: from there, or zero. Zero keeps a layer
// that is put on top of others the same when only their times change.
enum class ImpliedTimes { from_below, zero };

struct BuilderOptions {
  // Directory that the whole source is placed in ("/testbed"); empty or "/" for the root. The source's root is this
  // directory, and a symlink that leads an entry out of it is an error.
  std::string target_dir;
  ImpliedTimes implied_times = ImpliedTimes::from_below;
};

// Fills one LayerTree. Entries are applied in the order of their source; the rules are those of the OCI image
// specification (layer.md) and, where it is silent, of docker, containerd and umoci:
//   - names: a leading "/" and "." mean nothing; "..", NUL, over-long and empty names are refused
//   - parents that are symlinks are resolved inside the root, at any place of the stack; one that dangles or leads
//     through a file is an error. The last component is never followed
//   - parents that the source does not name get the attributes they have below; absent there too: 0755, 0:0, time 0
//   - a later entry replaces an earlier one of the same name, whatever it was; a directory over a directory keeps the
//     children and takes the new attributes
//   - a hard link to a file that only a lower layer has copies that file up: the layer gets both names
//   - removals hide lower layers only, never entries of the layer itself, wherever they come in the stream
// Every error is `invalid` (a limit, a rule), names the entry, and leaves the layer good for destruction only. Not
// thread-safe. `layer` and `below` must outlive the builder; `below` may be null (nothing below).
class LayerBuilder {
 public:
  // `layer` must be empty. Its root gets the attributes of the root below; the target directory is made here.
  static Result<LayerBuilder> create(format::LayerTree& layer, const MergedTree* below, BuilderOptions options = {});

  // Adds anything but a hard link or a whiteout. The root itself may only be a directory. The content of a regular
  // file follows through set_content(); until then its size is what `inode` says.
  Result<format::InodeId> add(std::string_view path, format::Inode inode);
  // The content of a file that add() has just returned: its length and where the sink keeps it.
  void set_content(format::InodeId file, std::uint64_t size_bytes, ContentSink::Ticket ticket);
  // A further name of the file at `target`, which is a path like those of entries.
  Result<void> link(std::string_view path, std::string_view target);
  // Removes what layers below have under `path`. Nothing there: no effect.
  Result<void> remove_below(std::string_view path);
  // Hides everything that layers below have inside a directory.
  Result<void> make_opaque(std::string_view directory);

  // The last step: gives every file its object digest (element `ticket` of what ContentSink::finish() returned) and
  // drops whiteouts and opaque marks that hide nothing, so that equal results are equal trees.
  Result<void> resolve(const std::vector<Digest>& digests);

 private:
  LayerBuilder(format::LayerTree& layer, const MergedTree* below, BuilderOptions options);

  [[nodiscard]] format::Inode implied_from_below(format::InodeId lower) const;
  Result<void> enter_target_dir();
  Result<std::string_view> walk_to_parent(std::string_view path);
  Result<void> walk_to(std::string_view directory);
  Result<void> check_contained();
  Result<Place> make_walked_directories();
  Result<format::InodeId> put_directory(Place parent, std::string_view name, format::Inode inode);
  Result<format::InodeId> try_add(std::string_view path, format::Inode inode);
  Result<void> try_link(std::string_view path, std::string_view target);
  Result<void> try_remove(std::string_view path);
  void hide_below_directory(InodeId directory);
  void prune();
  void prune_directory(Place directory, std::vector<Place>& waiting);

  format::LayerTree* layer_;
  const format::LayerTree* below_;  // null: nothing below
  BuilderOptions options_;
  UnionView view_;
  PathWalk walk_;
  std::vector<std::string> target_names_;     // where the source's root is, symlinks resolved
  std::vector<std::string_view> components_;  // of the entry at hand
  std::vector<std::pair<format::InodeId, ContentSink::Ticket>> contents_;
  std::unordered_set<format::InodeId> implied_;  // directories that no entry has named so far
  bool hides_below_ = false;                     // there may be whiteouts or opaque directories
};

}  // namespace dsec::composer
