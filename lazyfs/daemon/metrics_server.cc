// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "control/wire.h"

namespace dsec::daemon {

namespace {

constexpr std::string_view kOk = "HTTP/1.1 200 ";
constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kBacklog = 16;
constexpr int kLookMs = 200;  // how late a connection that does nothing may be cut

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

// The size of the address that was filled in; 0 when the host is no numeric address.
socklen_t fill(const ListenAddress& from, SocketAddress& to) {
  to = {};
  if (::inet_pton(AF_INET, from.host.c_str(), &to.v4.sin_addr) == 1) {
    to.v4.sin_family = AF_INET;
    to.v4.sin_port = htons(from.port);
    return sizeof to.v4;
  }
  if (::inet_pton(AF_INET6, from.host.c_str(), &to.v6.sin6_addr) == 1) {
    to.v6.sin6_family = AF_INET6;
    to.v6.sin6_port = htons(from.port);
    return sizeof to.v6;
  }
  return 0;
}

Result<Fd> listen_on_port(const ListenAddress& address) {
  SocketAddress where;
  const socklen_t size = fill(address, where);
  Fd socket(::socket(where.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return fail_sys(errno, "make a socket");
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), &where.any, size) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    return fail_sys(errno, fmt::format("listen on {}:{}", address.host, address.port));
  }
  return socket;
}

std::string message(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nX-Content-Type-Options: "
      "nosniff\r\n\r\n{}",
      status, type, body.size(), body);
}

std::string refusal(std::string_view status) {
  return message(status, "text/plain; charset=utf-8", fmt::format("{}\n", status));
}

bool may_try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Result<ListenAddress> parse_listen_address(const std::string& text) {
  ListenAddress address;
  if (starts_with(text, kUnixPrefix)) {
    address.path = text.substr(kUnixPrefix.size());
    if (address.path.empty() || address.path[0] != '/') {
      return fail(ErrorCode::invalid, "\"{}\" needs an absolute path", escaped(text));
    }
    return address;
  }
  const std::size_t colon = text.rfind(':');
  address.host = text.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  SocketAddress ignored;
  if (colon == std::string::npos || fill(address, ignored) == 0) {
    return fail(ErrorCode::invalid, "\"{}\" is none of 127.0.0.1:9400, [::1]:9400, unix:/PATH", escaped(text));
  }
  const std::string port = text.substr(colon + 1);
  const char* const end = port.data() + port.size();
  const auto [at, error] = std::from_chars(port.data(), end, address.port);
  if (error != std::errc() || at != end || address.port == 0) {
    return fail(ErrorCode::invalid, "\"{}\": the port \"{}\" is no number from 1 to 65535", escaped(text),
                escaped(port));
  }
  return address;
}

std::string http_answer(std::string_view request_line, const std::function<std::string()>& text) {
  const auto words = split(request_line, ' ');
  const bool is_http = words.size() == 3 && starts_with(words[2], "HTTP/1.");
  if (!is_http) return refusal("400 Bad Request");
  const std::string_view path = words[1].substr(0, words[1].find('?'));
  if (path != "/metrics") return refusal("404 Not Found");
  if (words[0] != "GET") return refusal("405 Method Not Allowed");
  return message("200 OK", "text/plain; version=0.0.4; charset=utf-8", text());
}

MetricsServer::MetricsServer(ListenAddress address, std::function<std::string()> text)
    : address_(std::move(address)), text_(std::move(text)) {
  auto stop = make_pipe();
  if (!stop) {
    log(LogLevel::warn, "metrics_off", {{"reason", stop.error().message}});
    return;
  }
  stop_ = std::move(*stop);
  thread_ = std::thread([this] { run(); });
}

MetricsServer::~MetricsServer() {
  stop_.write_end.reset();  // the thread sees the end of the pipe
  if (thread_.joinable()) thread_.join();
  remove_socket();
}

namespace {

std::optional<std::pair<dev_t, ino_t>> socket_file(const std::string& path) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return std::nullopt;
  return std::pair(file.st_dev, file.st_ino);
}

}  // namespace

Result<Fd> MetricsServer::listen() {
  if (address_.path.empty()) return listen_on_port(address_);
  Fd listener = TRY(control::listen_on(address_.path));
  file_ = socket_file(address_.path);
  return listener;
}

// Another one may listen at the path by now. Our listener is still open, so that its file cannot have our inode.
void MetricsServer::remove_socket() const {
  std::error_code ignored;
  if (file_ && socket_file(address_.path) == file_) std::filesystem::remove(address_.path, ignored);
}

void MetricsServer::run() {
  const auto pause = static_cast<int>(std::chrono::milliseconds(kBindPause).count());
  bool told = false;
  while (!listener_.valid()) {
    auto listener = listen();
    if (listener) {
      listener_ = std::move(*listener);
      break;
    }
    if (!std::exchange(told, true)) log(LogLevel::warn, "metrics_wait", {{"reason", listener.error().message}});
    pollfd stopped{stop_.read_end.get(), POLLIN, 0};
    if (::poll(&stopped, 1, pause) > 0) return;
  }
  while (serve_once()) {
  }
}

// False when the server is to end.
bool MetricsServer::serve_once() {
  const bool may_accept = connections_.size() < kMaxConnections;
  std::vector<pollfd> polled{{stop_.read_end.get(), POLLIN, 0}};
  polled.push_back({may_accept ? listener_.get() : -1, POLLIN, 0});
  for (const Connection& connection : connections_) {
    const bool sends = !connection.answer.empty() && connection.sent < connection.answer.size();
    const short wanted = sends ? POLLOUT : POLLIN;
    polled.push_back({connection.socket.get(), wanted, 0});
  }
  const int timeout = connections_.empty() ? -1 : kLookMs;
  if (::poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) return false;
  if (polled[0].revents != 0) return false;
  std::size_t at = 2;
  for (auto it = connections_.begin(); it != connections_.end(); ++at) {
    const bool is_ready = polled[at].revents != 0;
    const bool is_over = std::chrono::steady_clock::now() >= it->until || (is_ready && !go_on(*it));
    it = is_over ? connections_.erase(it) : std::next(it);
  }
  if (polled[1].revents != 0) accept_one();
  return true;
}

void MetricsServer::accept_one() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    ::poll(nullptr, 0, kLookMs);  // out of descriptors, perhaps: not again at once
    return;
  }
  connections_.push_back({std::move(socket), std::chrono::steady_clock::now() + kPatience, {}, {}, 0});
}

bool MetricsServer::go_on(Connection& connection) const {
  if (connection.answer.empty()) return receive(connection);
  return connection.sent < connection.answer.size() ? send(connection) : pass_over(connection);
}

bool MetricsServer::receive(Connection& connection) const {
  char bytes[2048];
  const ssize_t n = ::recv(connection.socket.get(), bytes, sizeof bytes, 0);
  if (n < 0) return may_try_again();
  if (n == 0) return false;
  std::string& request = connection.request;
  request.append(bytes, static_cast<std::size_t>(n));
  const bool is_complete = request.find("\r\n\r\n") != std::string::npos;
  if (!is_complete && request.size() < kMaxRequestBytes) return true;
  connection.answer = is_complete ? http_answer(std::string_view(request).substr(0, request.find("\r\n")), text_)
                                  : refusal("431 Request Header Fields Too Large");
  connection.is_refused = !starts_with(connection.answer, kOk);
  return send(connection);
}

bool MetricsServer::send(Connection& connection) {
  const std::string& answer = connection.answer;
  const ssize_t n =
      ::send(connection.socket.get(), answer.data() + connection.sent, answer.size() - connection.sent, MSG_NOSIGNAL);
  if (n < 0) return may_try_again();
  connection.sent += static_cast<std::size_t>(n);
  if (connection.sent < answer.size()) return true;
  if (connection.is_refused) ::shutdown(connection.socket.get(), SHUT_WR);
  return connection.is_refused;
}

// Until the client has gone, or its time is over.
bool MetricsServer::pass_over(Connection& connection) {
  char bytes[2048];
  const ssize_t n = ::recv(connection.socket.get(), bytes, sizeof bytes, 0);
  return n > 0 || (n < 0 && may_try_again());
}

}  // namespace dsec::daemon
