// SPDX-License-Identifier: Apache-2.0
// Which environments are shown, on which mount, and for whom.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "base/json.h"
#include "base/result.h"
#include "daemon/attach_log.h"
#include "daemon/object_roots.h"
#include "fuse/session.h"
#include "store/layer_cache.h"
#include "store/store.h"
#include "tree/namespace.h"
#include "tree/slots.h"

namespace dsec::daemon {

// One FUSE mount and what it shows. There are two: one never answers xattr requests, for environments without xattrs,
// so that overlayfs above it need not ask (docs/decisions/0002-two-mounts.md).
struct MountedNames {
  std::filesystem::path path;
  std::shared_ptr<tree::Namespace> names;
  fuse::Session* session = nullptr;  // outlives the attachments
};

struct Attachment {
  std::filesystem::path path;
  bool has_xattrs = false;
};

// Attaches and detaches. An environment whose last owner left stays shown, so that the kernel keeps its cached pages
// and names for the next one, except as View::record; the least recently used go when more than kMaxIdle wait.
// Thread-safe; loading the metadata of an environment blocks only who wants to attach another new one.
class Attachments {
 public:
  static constexpr std::size_t kMaxIdle = 512;

  // `merged` lives longer; null when there are no merged images.
  Attachments(store::Store store, store::LayerCache layers, std::unique_ptr<tree::SlotTable> slots, MountedNames plain,
              MountedNames with_xattrs, MergedImages* merged);

  // Shows what a predecessor showed, under the same names and numbers, and writes changes down from then on. Before
  // anything is attached. Environments that are not in the store any more are left out with a log line; any other
  // failure ends it, so that it is tried again.
  Result<void> restore(std::unique_ptr<AttachLog> log);

  // `holder` is who has a lease.
  Result<Attachment> attach(const Digest& env, View view, const std::string& owner,
                            const std::optional<LeaseHolder>& holder);
  // The environments that nobody owns any more, in no view.
  std::vector<Digest> detach(const std::string& owner);
  [[nodiscard]] bool is_owned(const Digest& env);
  // From bottom to top; `not_found` when it is not attached.
  Result<std::vector<std::shared_ptr<const store::Layer>>> layers(const Digest& env);
  // Who is told what readers of an environment use: through its View::record, or through all that it shares with
  // others.
  enum class Readers : std::uint8_t { of_record, of_layers };
  void observe(const Digest& env, Readers readers, const std::shared_ptr<tree::ReadObserver>& observer);
  void unobserve(const Digest& env, Readers readers, const std::shared_ptr<tree::ReadObserver>& observer);
  // The root of an attached environment in object mode (object_roots.h).
  Result<std::shared_ptr<const Fd>> object_root(const Digest& env);
  // "yes", or why object mode does not work here; empty before anybody asked for it.
  [[nodiscard]] std::string object_mode() const;

  struct Usage {
    std::uint64_t store_bytes = 0;
    std::uint64_t read_bytes = 0;
    std::uint64_t reads = 0;
  };
  // Of all layers of an attached environment; `not_found` when it is not attached.
  Result<Usage> usage(const Digest& env);

  // What is shown, each view for itself.
  struct Seen {
    std::shared_ptr<const tree::EnvTree> tree;
    std::filesystem::path path;
    std::vector<std::string> owners;
    const MountedNames* mount = nullptr;
  };
  std::vector<Seen> seen();
  [[nodiscard]] std::array<const MountedNames*, 2> mounts() const { return {&plain_, &with_xattrs_}; }

  std::vector<std::string> owners();
  // {"attached": [...], "attached_left_out": N}: those in use first, and no more than fit a message.
  Json describe();
  // How long nothing has been attached; zero while something is.
  std::chrono::milliseconds idle_for();

 private:
  struct Shown {
    std::shared_ptr<const tree::EnvTree> tree;
    MountedNames* mount = nullptr;
    std::set<std::string> owners;
    std::uint64_t last_used = 0;
  };
  struct State {
    std::map<std::string, Shown> shown;  // by name in the mount
    std::uint64_t clock = 0;
    std::chrono::steady_clock::time_point idle_since = std::chrono::steady_clock::now();
  };
  Result<std::shared_ptr<const tree::EnvTree>> load(const Digest& env, View view);
  using NamesInMounts = std::vector<std::pair<MountedNames*, std::string>>;
  void hide(const NamesInMounts& dropped);
  bool owns_record(const std::string& owner);
  NamesInMounts shown_for(const Digest& env, Readers readers);
  void drop_objects(const Digest& env);
  Result<std::shared_ptr<const tree::EnvTree>> shown_tree(const Digest& env);
  using Owners = std::set<std::string>;
  Result<Attachment> show(const Digest& env, View view, const Owners& owners);
  Attachment add_owners(State& state, Shown& shown, const std::string& name, const Owners& owners);
  void drop_idle(State& state, NamesInMounts& dropped);

  store::Store store_;
  store::LayerCache layers_;
  std::unique_ptr<tree::SlotTable> slots_;
  MountedNames plain_;
  MountedNames with_xattrs_;
  ObjectRoots roots_;
  std::mutex loading_;                                          // taken before state_
  std::map<Digest, std::weak_ptr<const store::Layer>> loaded_;  // guarded by loading_
  std::unique_ptr<AttachLog> log_;                              // none before restore()
  Guarded<State> state_;
};

}  // namespace dsec::daemon
