// SPDX-License-Identifier: Apache-2.0
// Asking lazyfsd for trees.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"

namespace dsec::control {

// Where the daemon of a store keeps its socket, mounts and log: a directory below runtime_dir() named by the store's
// path, so that each store has a daemon of its own.
std::filesystem::path daemon_dir(const std::filesystem::path& store);

// How a tree is going to be used.
enum class TreeView {
  plain,    // as it is: bind mounts, other runtimes
  overlay,  // as the lower directory of an overlayfs: what that would take for its own is escaped
};

struct AttachedTree {
  std::filesystem::path path;
  bool has_xattrs = false;
};

// What an environment's layers have cost so far; the difference of two is what happened between them. Layers shared
// with other environments count for all of them.
struct TreeUsage {
  std::uint64_t store_bytes = 0;  // read from the store
  std::uint64_t read_bytes = 0;   // asked for by readers of files
  std::uint64_t reads = 0;
};

// A connection to the lazyfsd of one store. One thread at a time.
class Client {
 public:
  enum class Start { never, on_demand };
  // `unavailable` when no daemon runs and none could be started; the message says why and where its log is.
  static Result<Client> connect(const std::filesystem::path& store, Start start);

  // Shows an environment until every owner has detached. `owner` is a name of the user ("sandbox:ID", "mount:DIR");
  // attaching twice under one name counts once. A lease ends with this connection, so that a killed client leaves
  // nothing attached.
  enum class Lease { until_detached, with_connection };
  Result<AttachedTree> attach(const Digest& env, TreeView view, const std::string& owner, Lease lease);
  // Ends an owner's use. No error when there is none.
  Result<void> detach(const std::string& owner);
  Result<TreeUsage> usage(const Digest& env);
  // Everything the daemon knows of itself, for people and tools.
  Result<Json> status();
  // Unmounts and ends the daemon; `exists` lists the owners when there are some and `force` is no. Returns when it has
  // ended, or after kStopPatience when somebody still uses a mount; the client is then spent.
  enum class Force { no, yes };
  Result<void> stop(Force force);
  static constexpr std::chrono::milliseconds kStopPatience{10000};

 private:
  explicit Client(Fd socket) : socket_(std::move(socket)) {}
  Result<Json> call(const Json& request);

  Fd socket_;
  std::string rest_;
};

}  // namespace dsec::control
