// SPDX-License-Identifier: Apache-2.0
#include "fuse/fuse_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace dsec::fuse::test {

namespace {

constexpr std::size_t kMaxReply = 2 << 20;
constexpr int kSocketBuffer = 4 << 20;

}  // namespace

Connection::Connection(std::shared_ptr<const tree::Namespace> names, SessionOptions options) {
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  for (const int end : ends) {
    if (::setsockopt(end, SOL_SOCKET, SO_SNDBUFFORCE, &kSocketBuffer, sizeof kSocketBuffer) != 0) {
      ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
    }
  }
  socket_ = Fd(ends[0]);
  auto session = Session::connect(std::move(names), Fd(ends[1]), options);
  if (!session) FAIL(session.error().message);
  session_ = std::move(*session);
  server_ = std::thread([this] {
    (void)session_->run();
    ended_ = true;
  });
}

Connection::~Connection() {
  socket_.reset();
  if (server_.joinable()) server_.join();
}

bool Connection::hang_up() {
  socket_.reset();
  for (int i = 0; i < 1000 && !ended_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return ended_;
}

void Connection::send_raw(const Bytes& packet) {
  REQUIRE(::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size()));
}

std::uint64_t Connection::send(std::uint32_t opcode, std::uint64_t node, const Bytes& body) {
  fuse_in_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + body.size());
  header.opcode = opcode;
  header.unique = next_unique_;
  header.nodeid = node;
  next_unique_ += 2;
  Bytes packet = packed(header);
  packet.insert(packet.end(), body.begin(), body.end());
  send_raw(packet);
  return header.unique;
}

std::optional<Reply> Connection::receive(std::chrono::milliseconds timeout) {
  struct pollfd entry {
    socket_.get(), POLLIN, 0
  };
  if (::poll(&entry, 1, static_cast<int>(timeout.count())) != 1) return std::nullopt;
  Bytes packet(kMaxReply);
  const ssize_t size = ::recv(socket_.get(), packet.data(), packet.size(), 0);
  if (size < static_cast<ssize_t>(sizeof(fuse_out_header))) return std::nullopt;
  packet.resize(static_cast<std::size_t>(size));
  fuse_out_header header{};
  std::memcpy(&header, packet.data(), sizeof header);
  CHECK(header.len == packet.size());
  packet.erase(packet.begin(), packet.begin() + sizeof header);
  return Reply{header.unique, -header.error, std::move(packet)};
}

Reply Connection::call(std::uint32_t opcode, std::uint64_t node, const Bytes& body) {
  const std::uint64_t unique = send(opcode, node, body);
  auto reply = receive();
  if (!reply) FAIL("no reply to opcode " << opcode);
  REQUIRE(reply->unique == unique);
  return std::move(*reply);
}

Reply Connection::init(std::uint32_t flags) {
  fuse_init_in in{};
  in.major = FUSE_KERNEL_VERSION;
  in.minor = FUSE_KERNEL_MINOR_VERSION;
  in.max_readahead = 128 << 10;
  in.flags = flags;
  return call(FUSE_INIT, 0, packed(in));
}

Reply Connection::lookup(std::uint64_t parent, std::string_view name) {
  const std::string text = terminated(name);
  return call(FUSE_LOOKUP, parent, Bytes(text.begin(), text.end()));
}

std::uint64_t Connection::walk(std::initializer_list<std::string_view> path) {
  std::uint64_t node = FUSE_ROOT_ID;
  for (const std::string_view name : path) {
    const Reply reply = lookup(node, name);
    INFO(name);
    REQUIRE(reply.error == 0);
    node = reply.as<fuse_entry_out>().nodeid;
    REQUIRE(node != 0);
  }
  return node;
}

Reply Connection::read(std::uint64_t node, std::uint64_t offset, std::uint32_t size) {
  fuse_read_in in{};
  in.offset = offset;
  in.size = size;
  return call(FUSE_READ, node, packed(in));
}

}  // namespace dsec::fuse::test
