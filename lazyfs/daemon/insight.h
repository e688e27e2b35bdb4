// SPDX-License-Identifier: Apache-2.0
// What `dsec fs stats|inflight|evict|info|trace` and `dsec fs top` ask for.
#pragma once

#include <map>
#include <string>

#include "daemon/control_server.h"
#include "daemon/path_finder.h"
#include "daemon/sight.h"
#include "daemon/trace_feed.h"

namespace dsec::daemon {

// Thread-safe.
class Insight {
 public:
  explicit Insight(Sight sight);

  // Requests of the control socket:
  //   stats     {"env"?}                      -> docs/observing.md
  //   inflight  {}                            -> {"requests": [...]}
  //   evict     {"env"?, "bytes"?, "memory"?} -> {"node_cache_bytes", "memory_bytes"}
  //   info      {"node", "mount"}             -> what is known of a node of a mount ("mnt", "mnt-xattr")
  //   trace     {"env"?}                      -> TraceFeed
  std::map<std::string, ControlServer::Handler> handlers();
  [[nodiscard]] const Sight& sight() const { return sight_; }

 private:
  void forget_paths();
  Result<Json> in_flight();
  Result<Json> evict(const Json& request);
  std::uint64_t evict_env(const std::vector<std::shared_ptr<const store::Layer>>& layers, std::uint64_t* memory);
  Result<Json> info(const Json& request);

  Sight sight_;
  PathFinder paths_;
  TraceFeed traces_;
};

// Where chunks are now, for user.lazyfs.cached: `stack` outlives it.
tree::Whereabouts whereabouts(const ChunkStack& stack);

}  // namespace dsec::daemon
