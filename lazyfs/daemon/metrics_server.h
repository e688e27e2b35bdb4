// SPDX-License-Identifier: Apache-2.0
// GET /metrics over HTTP/1.1 (docs/decisions/0013-own-metrics-responder.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"

namespace dsec::daemon {

// Where to listen: a numeric IPv4 or IPv6 address and a port, or the path of a UNIX socket (0600). A socket that is at
// the path is replaced; whoever listened there last removes its file when it ends.
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string path;  // not empty: this
};
// "127.0.0.1:9400", "[::1]:9400" or "unix:/run/x"; `invalid` otherwise. Names are not looked up.
Result<ListenAddress> parse_listen_address(const std::string& text);

// The answer to a request's first line: "GET /metrics HTTP/1.1" gets `text`.
std::string http_answer(std::string_view request_line, const std::function<std::string()>& text);

// One thread for all clients, none of which can hold it up: at most kMaxConnections are served at a time, each has
// kPatience from its first byte to its last, a request may have kMaxRequestBytes, its body is not read, and every
// connection ends with its answer. An address that cannot be had is tried again every kBindPause, with one warning: a
// predecessor may still have it.
class MetricsServer {
 public:
  static constexpr std::size_t kMaxConnections = 16;
  static constexpr std::size_t kMaxRequestBytes = 8 << 10;
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kBindPause{1};

  // `text` is called on the server's thread.
  MetricsServer(ListenAddress address, std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

 private:
  struct Connection {
    Fd socket;
    Deadline until;
    std::string request;
    std::string answer;  // not empty once the request is complete
    std::size_t sent = 0;
    bool is_refused = false;  // it may send more: without reading that, the answer could be lost with it
  };
  void run();
  Result<Fd> listen();
  void remove_socket() const;
  bool serve_once();
  void accept_one();
  // False when it is over.
  bool go_on(Connection& connection) const;
  bool receive(Connection& connection) const;
  static bool send(Connection& connection);
  static bool pass_over(Connection& connection);

  const ListenAddress address_;
  const std::function<std::string()> text_;
  Fd listener_;
  std::optional<std::pair<dev_t, ino_t>> file_;  // of a UNIX socket that we listen on
  std::list<Connection> connections_;
  Pipe stop_;
  std::thread thread_;
};

}  // namespace dsec::daemon
