// SPDX-License-Identifier: Apache-2.0
// The requests of the kernel as a stream, for clients of the control socket.
#pragma once

#include <map>
#include <memory>

#include "base/guarded.h"
#include "daemon/control_server.h"
#include "daemon/path_finder.h"
#include "fuse/observe.h"

namespace dsec::daemon {

// A client asks again and again; the first time its connection becomes a listener, and the end of the connection ends
// that. Between two questions up to RequestListener::kMaxEvents wait, then events are dropped and counted. Thread-safe.
class TraceFeed {
 public:
  static constexpr std::size_t kMaxEventsInReply =
      100;  // with paths and names of any bytes fits control::kMaxMessageBytes
  static constexpr std::chrono::milliseconds kPatience{200};

  TraceFeed(std::shared_ptr<fuse::RequestTap> tap, PathFinder& paths) : tap_(std::move(tap)), paths_(paths) {}

  // {"env": DIGEST or absent} -> {"events": [...], "dropped": N}; no events after a while without any. With an
  // environment: what readers of it may have asked for, since files of a layer are shared by all that have it.
  Result<Json> next(const Json& request, ControlServer::Peer& peer);

 private:
  std::shared_ptr<fuse::RequestListener> listener_of(ControlServer::Peer& peer);
  Json describe(const fuse::RequestEvent& event);

  std::shared_ptr<fuse::RequestTap> tap_;
  PathFinder& paths_;
  Guarded<std::map<const ControlServer::Peer*, std::shared_ptr<fuse::RequestListener>>> listeners_;
};

}  // namespace dsec::daemon
