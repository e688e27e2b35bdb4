// SPDX-License-Identifier: Apache-2.0
// The directory that holds packs, layers, environments and refs. docs/format.md, section "Store".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "base/result.h"
#include "format/env.h"
#include "format/pack.h"
#include "format/trace.h"

namespace dsec::store {

struct RefEntry {
  format::RefName ref;
  Digest digest;
};

// A store on a local disk or a mounted network file system. Everything is written to tmp/, synced and renamed, so a
// reader never sees half a file, any number of processes on any number of machines may write at once, and a crash
// leaves only litter in tmp/. Objects are immutable and named by their content: writing one that is there is no error.
// Stateless but for its path; thread-safe.
class Store {
 public:
  // `not_found` with what to do when there is no store at `root`; `unsupported` for a newer format.
  static Result<Store> open(const std::filesystem::path& root);
  // The store at `root` as remember() wrote it down, without asking that: it may be away, or not answer. For who goes
  // on serving what it has of a store. `not_found` when there is no `copy`.
  static Result<Store> recall(const std::filesystem::path& root, const std::filesystem::path& copy);
  Result<void> remember(const std::filesystem::path& copy) const;
  // Makes an empty store when `root` is absent or an empty directory.
  static Result<Store> open_or_create(const std::filesystem::path& root);

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] const std::string& uuid() const { return uuid_; }

  [[nodiscard]] std::filesystem::path pack_path(const Digest& pack) const;
  [[nodiscard]] std::filesystem::path layer_image_path(const Digest& layer) const;
  [[nodiscard]] std::filesystem::path layer_map_path(const Digest& layer) const;
  [[nodiscard]] std::filesystem::path env_path(const Digest& env) const;
  [[nodiscard]] std::filesystem::path trace_path(const Digest& env) const;
  [[nodiscard]] std::filesystem::path tmp_dir() const { return root_ / "tmp"; }

  // Objects of a kind that the store holds, sorted. Files with other names are ignored.
  [[nodiscard]] Result<std::vector<Digest>> list_packs() const;
  [[nodiscard]] Result<std::vector<Digest>> list_layers() const;
  [[nodiscard]] Result<std::vector<Digest>> list_envs() const;

  // The index of a pack, read from its end. `corrupt` names the pack.
  [[nodiscard]] Result<std::vector<format::PackEntry>> read_pack_index(const Digest& pack) const;

  [[nodiscard]] bool has_layer(const Digest& layer) const;
  // Image bytes, checked against the digest. `not_found` and `corrupt` name the file.
  [[nodiscard]] Result<Bytes> read_layer_image(const Digest& layer) const;
  // Map bytes, not checked.
  [[nodiscard]] Result<Bytes> read_layer_map(const Digest& layer) const;
  // Stores image and map; the image comes last, so a layer that exists is complete. Returns its digest. What is there
  // is kept, but for an image that is damaged and, when the caller says so, a map that does not lead to the chunks.
  // Readers of that map notice by themselves (Layer::refresh_map()).
  enum class OldMap { keep, replace };
  Result<Digest> put_layer(ByteView image, ByteView map, OldMap old_map = OldMap::keep) const;

  // `not_found`, or `corrupt` when the document does not fit its name.
  [[nodiscard]] Result<format::Env> read_env(const Digest& env) const;
  // Replaces a damaged one.
  Result<Digest> put_env(const format::Env& env) const;

  // What the environment was first asked for, in order; `not_found` when nobody recorded it, `corrupt` when damaged.
  [[nodiscard]] Result<format::Trace> read_trace(const Digest& env) const;
  // Replaces the one that is there.
  Result<void> put_trace(const Digest& env, const format::Trace& trace) const;

  [[nodiscard]] Result<Digest> read_ref(format::RefKind kind, const format::RefName& ref) const;
  Result<void> write_ref(format::RefKind kind, const format::RefName& ref, const Digest& digest) const;
  // `not_found` when there is none.
  Result<void> remove_ref(format::RefKind kind, const format::RefName& ref) const;
  // The names of all refs, sorted by name and tag, whatever their files hold.
  [[nodiscard]] Result<std::vector<format::RefName>> list_ref_names(format::RefKind kind) const;
  // All refs in the same order. A damaged ref file is `corrupt`.
  [[nodiscard]] Result<std::vector<RefEntry>> list_refs(format::RefKind kind) const;

  // The object that a person means: a ref, or a digest or a unique prefix of at least 6 digits. `not_found` names near
  // refs.
  [[nodiscard]] Result<Digest> resolve(format::RefKind kind, std::string_view text) const;

 private:
  explicit Store(std::filesystem::path root) : root_(std::move(root)) {}
  [[nodiscard]] std::filesystem::path ref_path(format::RefKind kind, const format::RefName& ref) const;
  Result<void> load_settings(const std::filesystem::path& file);

  std::filesystem::path root_;
  std::string uuid_;
};

}  // namespace dsec::store
