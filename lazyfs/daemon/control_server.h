// SPDX-License-Identifier: Apache-2.0
// Answers control requests (control/client.h) over the daemon's socket.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"

namespace dsec::daemon {

// One thread accepts, one serves each connection; at most kMaxConnections at once, others wait in the backlog.
// Requests are {"op": NAME, ...}; a handler gets the whole request and the connection it came by, and returns the
// reply. Only peers of our own user (or root) are served.
class ControlServer {
 public:
  static constexpr int kMaxConnections = 1024;

  // One client. What a handler puts into `at_end` runs when the connection ends, however that happens.
  struct Peer {
    pid_t pid = 0;  // 0: not known here
    std::vector<std::function<void()>> at_end;
    std::shared_ptr<const Fd> reply_fd;  // goes with the reply, once
  };
  using Handler = std::function<Result<Json>(const Json&, Peer&)>;

  ControlServer(Fd listener, std::map<std::string, Handler> handlers)
      : listener_(std::move(listener)), handlers_(std::move(handlers)) {}

  // Serves until stop(), then waits for connections to end; those whose handler hangs after `patience` are left. False:
  // there are some, and this must live as long as the process.
  bool run(std::chrono::milliseconds patience);
  // From any thread, a handler's too.
  void stop();

 private:
  void serve(Fd connection);
  void serve_requests(const Fd& connection, Peer& peer);
  Json answer(const Json& request, Peer& peer);

  Fd listener_;
  std::map<std::string, Handler> handlers_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
};

}  // namespace dsec::daemon
