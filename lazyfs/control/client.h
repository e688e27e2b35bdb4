// SPDX-License-Identifier: Apache-2.0
// Asking lazyfsd for trees.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"

namespace dsec::control {

// Where the daemon of a store keeps its socket, mounts and log: a directory below runtime_dir() named by the store's
// path without symlinks, so that each store has a daemon of its own. A store that does not answer cannot tell that
// path: after kResolvePatience it is what it was when a client last came by this one, or else this one as it stands.
std::filesystem::path daemon_dir(const std::filesystem::path& store);
inline constexpr std::chrono::milliseconds kResolvePatience{1000};

// How a tree is going to be used.
enum class TreeView {
  plain,    // as it is: bind mounts, other runtimes
  overlay,  // as the lower directory of an overlayfs: what that would take for its own is escaped
};

// How the kernel gets the tree (docs/decisions/0010-object-mode.md).
enum class RootfsMode {
  automatic,  // objects where that is possible
  tree,       // from lazyfsd: names and attributes too
  objects,    // names and attributes from the layers' images, only contents from lazyfsd
};

// What a tree is attached for: what is known of its use is fetched ahead, and the first run is recorded.
enum class Purpose {
  other,
  look,    // a mount
  run,     // a command
  record,  // a command that is recorded: in tree mode, from a tree of its own
};

struct AttachedTree {
  std::filesystem::path path;  // of the tree that lazyfsd shows
  bool has_xattrs = false;
  Fd objects_root;        // a detached mount of the tree in object mode; none in tree mode
  std::string why_not;    // automatic: why there is none
  bool recorded = false;  // store_trace() is worth asking for
};

// Whether a trace was stored, and of what.
struct StoredTrace {
  bool stored = false;
  std::uint64_t chunks = 0;
  std::uint64_t stored_bytes = 0;  // as they are in the store
  std::string reason;              // why not
};

// What is fetched ahead of need.
enum class Fetch {
  trace,  // what a recorded run used
  all,
};

// How far that is.
struct FetchProgress {
  enum class State { running, done, failed, stopped, unknown, needless } state = State::unknown;
  std::uint64_t planned_bytes = 0;
  std::uint64_t done_bytes = 0;     // read, or found on this node
  std::uint64_t fetched_bytes = 0;  // of these: read from the store
  std::string reason;               // failed, needless: why
};

// What an environment's layers have cost so far; the difference of two is what happened between them. Layers shared
// with other environments count for all of them.
struct TreeUsage {
  std::uint64_t store_bytes = 0;  // read from the store
  std::uint64_t read_bytes = 0;   // asked for by readers of files
  std::uint64_t reads = 0;
};

// What an upgrade came to.
struct Upgrade {
  std::string before;  // versions
  std::string after;
  std::string reason;  // why the program from before serves on; empty when all is well
};

// A connection to the lazyfsd of one store. One thread at a time. When lazyfsd is replaced by another one, the next
// call connects again, takes its leases back and is repeated: all requests may be.
class Client {
 public:
  enum class Start { never, on_demand };
  // `unavailable` when no daemon runs and none could be started; the message says why and where its log is. `timeout`
  // when one runs but takes no connection, or when one would have to be started and the store does not answer.
  //
  // Calls fail with `timeout` when lazyfsd has not answered in time: after kLookPatience where it needs no store for
  // that, after two minutes otherwise.
  static Result<Client> connect(const std::filesystem::path& store, Start start);
  // To the daemon with this directory, if it runs.
  static Result<Client> connect_in(const std::filesystem::path& dir);

  // Shows an environment until every owner has detached. `owner` is a name of the user ("sandbox:ID", "mount:DIR");
  // attaching twice under one name counts once. A lease ends with this connection, so that a killed client leaves
  // nothing attached.
  enum class Lease { until_detached, with_connection };
  // `unsupported` when object mode is asked for and impossible; nothing is attached then.
  Result<AttachedTree> attach(const Digest& env, TreeView view, const std::string& owner, Lease lease,
                              RootfsMode mode = RootfsMode::tree, Purpose purpose = Purpose::other);
  // Ends an owner's use. No error when there is none.
  Result<void> detach(const std::string& owner);
  Result<TreeUsage> usage(const Digest& env);
  // What an owner used becomes the trace of its environment, if it was attached to be recorded. While it is attached.
  Result<StoredTrace> store_trace(const std::string& owner);
  // Fetches an attached environment onto this node, from now on if that is not under way, and as long as this
  // connection lasts. `not_found` when there is no trace. A lazyfsd that is replaced forgets it (`unknown`): then ask
  // again, as after `stopped`.
  Result<FetchProgress> prefetch(const Digest& env, Fetch what);
  Result<FetchProgress> prefetch_progress(const Digest& env, Fetch what);
  // Any request; the reply as it is. For what people look at (docs/observing.md).
  Result<Json> ask(const Json& request) { return call(request); }
  // Everything the daemon knows of itself, for people and tools.
  Result<Json> status();
  // Lets another lazyfsd, from the program as it is now installed, take over; readers wait meanwhile. `unavailable`
  // when this one has no keeper that could start it.
  Result<Upgrade> upgrade();
  // Unmounts and ends the daemon; `exists` lists the owners when there are some and `force` is no. Returns when it has
  // ended, or after kStopPatience when somebody still uses a mount; the client is then spent.
  enum class Force { no, yes };
  Result<void> stop(Force force);
  static constexpr std::chrono::milliseconds kStopPatience{10000};
  static constexpr std::chrono::milliseconds kLookPatience{20000};

 private:
  Client(std::filesystem::path path, Fd socket) : path_(std::move(path)), socket_(std::move(socket)) {}
  Result<Json> call(const Json& request, Fd* passed = nullptr);
  Result<Json> exchange(const Json& request, Fd* passed);
  Result<void> reconnect();

  std::filesystem::path path_;  // of the socket
  Fd socket_;
  std::string rest_;
  std::map<std::string, Json> leases_;  // owner -> how to attach again
};

}  // namespace dsec::control
