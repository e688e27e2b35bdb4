// SPDX-License-Identifier: Apache-2.0
#include "daemon/control_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/log.h"
#include "control/wire.h"

namespace dsec::daemon {

namespace {

constexpr int kPollMs = 200;

// Of whoever connected; uid is none when it cannot be told.
struct ucred peer_of(const Fd& connection) {
  struct ucred peer {};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) peer.uid = static_cast<uid_t>(-1);
  return peer;
}

bool peer_may_ask(const Fd& connection) {
  const uid_t uid = peer_of(connection).uid;
  return uid == 0 || uid == ::geteuid();
}

}  // namespace

bool ControlServer::run(std::chrono::milliseconds patience) {
  while (!stopping_) {
    struct pollfd polled {
      listener_.get(), POLLIN, 0
    };
    const bool may_accept = connections_ < kMaxConnections;
    if (::poll(&polled, may_accept ? 1 : 0, kPollMs) <= 0) continue;
    Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.valid()) continue;
    if (!peer_may_ask(connection)) {
      log(LogLevel::warn, "control_refused");
      continue;
    }
    ++connections_;
    std::thread([this, held = std::make_shared<Fd>(std::move(connection))] {
      serve(std::move(*held));
      --connections_;
    }).detach();
  }
  const auto until = std::chrono::steady_clock::now() + patience;
  while (connections_ > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return connections_ == 0;
}

void ControlServer::stop() { stopping_ = true; }

void ControlServer::serve(Fd connection) {
  Peer peer;
  peer.pid = peer_of(connection).pid;
  serve_requests(connection, peer);
  for (const auto& action : peer.at_end) action();
}

void ControlServer::serve_requests(const Fd& connection, Peer& peer) {
  std::string rest;
  while (!stopping_) {
    auto request = control::receive_message(connection, rest, kPollMs);
    if (!request && request.error().code == ErrorCode::timeout) continue;
    if (!request) return;  // gone, or no JSON: nothing more to say
    const Json reply = answer(*request, peer);
    const auto passed = std::exchange(peer.reply_fd, nullptr);
    if (!control::send_message(connection, reply, passed ? passed->get() : -1)) return;
  }
}

Json ControlServer::answer(const Json& request, Peer& peer) {
  const auto op = json_text(request, "op");
  if (!op) return control::error_message(op.error());
  const auto handler = handlers_.find(*op);
  if (handler == handlers_.end()) {
    return control::error_message(Error{ErrorCode::invalid, fmt::format("lazyfsd does not know \"{}\"", *op), 0});
  }
  auto reply = handler->second(request, peer);
  return reply ? *reply : control::error_message(reply.error());
}

}  // namespace dsec::daemon
