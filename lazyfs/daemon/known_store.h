// SPDX-License-Identifier: Apache-2.0
// What lazyfsd must know of its store before it serves, and whether that is still so.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "store/file_system_kind.h"
#include "store/store.h"

namespace dsec::daemon {

// Where a store is.
struct StorePlace {
  store::FileSystemKind kind;
  bool is_on_hf3fs = false;
  std::string hf3fs_mount;  // under which 3FS's library knows it; empty when nobody asked
};

// Looks at the file system of the store, and waits for it. One that gives an error is taken for remote.
StorePlace look_at_place(const store::Store& store);

struct KnownStore {
  store::Store store;
  StorePlace place;
  bool is_recalled = false;  // from what a predecessor wrote down: nothing has asked the store yet
};

// The store at `root`, as Store::open().
Result<KnownStore> open_store(const std::filesystem::path& root);
// The same as `dir` says, without touching the store, which may not answer. `not_found` when remember_store() wrote
// nothing there.
Result<KnownStore> recall_store(const std::filesystem::path& root, const std::filesystem::path& dir);
// For a successor. What cannot be written is one log line.
void remember_store(const KnownStore& known, const std::filesystem::path& dir);

// Asks a store that was recalled, in a thread of its own, until it says that it is the one that it was, and writes each
// turn of that to the log. Thread-safe.
class StoreCheck {
 public:
  // Nothing to be asked.
  StoreCheck();
  explicit StoreCheck(const store::Store& recalled);
  // Leaves the thread behind: it may hang in the store.
  ~StoreCheck();
  StoreCheck(const StoreCheck&) = delete;
  StoreCheck& operator=(const StoreCheck&) = delete;

  // `unavailable` once there is another store in its place: what is not on this node cannot be had from that.
  [[nodiscard]] Result<void> verdict() const;
  // {"state": "same" | "waiting" | "away" | "another", "reason"}.
  [[nodiscard]] Json describe() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dsec::daemon
