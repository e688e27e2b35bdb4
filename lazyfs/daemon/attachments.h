// SPDX-License-Identifier: Apache-2.0
// Which environments are shown, on which mount, and for whom.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "base/json.h"
#include "base/result.h"
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
// and names for the next one; the least recently used go when more than kMaxIdle wait. Thread-safe; loading the
// metadata of an environment blocks only who wants to attach another new one.
class Attachments {
 public:
  static constexpr std::size_t kMaxIdle = 512;

  Attachments(store::Store store, store::LayerCache layers, std::unique_ptr<tree::SlotTable> slots, MountedNames plain,
              MountedNames with_xattrs);

  Result<Attachment> attach(const Digest& env, format::XattrView view, const std::string& owner);
  void detach(const std::string& owner);

  struct Usage {
    std::uint64_t store_bytes = 0;
    std::uint64_t read_bytes = 0;
    std::uint64_t reads = 0;
  };
  // Of all layers of an attached environment; `not_found` when it is not attached.
  Result<Usage> usage(const Digest& env);

  std::vector<std::string> owners();
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
  Result<std::shared_ptr<const tree::EnvTree>> load(const Digest& env, format::XattrView view);
  Attachment add_owner(State& state, Shown& shown, const std::string& name, const std::string& owner);
  void drop_idle(State& state, std::vector<std::pair<MountedNames*, std::string>>& dropped);

  store::Store store_;
  store::LayerCache layers_;
  std::unique_ptr<tree::SlotTable> slots_;
  MountedNames plain_;
  MountedNames with_xattrs_;
  std::mutex loading_;                                          // taken before state_
  std::map<Digest, std::weak_ptr<const store::Layer>> loaded_;  // guarded by loading_
  Guarded<State> state_;
};

}  // namespace dsec::daemon
