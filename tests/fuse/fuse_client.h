// SPDX-License-Identifier: Apache-2.0
// The kernel's side of the FUSE protocol, as far as tests need it (include/uapi/linux/fuse.h).
#pragma once

#include <linux/fuse.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "fuse/session.h"
#include "tree/namespace.h"

namespace dsec::fuse::test {

constexpr std::uint64_t kForever = 1000000;  // seconds; anything above is "never" here

struct Reply {
  std::uint64_t unique = 0;
  int error = 0;  // an errno, positive; 0 for success
  Bytes body;
  template <typename T>
  [[nodiscard]] T as() const {
    T value{};
    std::memcpy(&value, body.data(), std::min(sizeof value, body.size()));
    return value;
  }
};

template <typename T>
Bytes packed(const T& value, std::string_view after = {}) {
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  bytes.insert(bytes.end(), after.begin(), after.end());
  return bytes;
}
// A name as it travels: with its NUL.
inline std::string terminated(std::string_view name) { return std::string(name) + '\0'; }

// A session that serves `names` over a socketpair on threads of its own, and the client at the other end.
class Connection {
 public:
  Connection(std::shared_ptr<const tree::Namespace> names, SessionOptions options);
  ~Connection();

  // Sends a request without waiting; returns its number.
  std::uint64_t send(std::uint32_t opcode, std::uint64_t node, const Bytes& body = {});
  void send_raw(const Bytes& packet);
  // The next reply, whatever it answers; nothing when none comes in time.
  std::optional<Reply> receive(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // The reply to a request. Fails the test when another one comes first, or none.
  Reply call(std::uint32_t opcode, std::uint64_t node, const Bytes& body = {});
  // Hangs up and waits for the session to end; false when it does not.
  bool hang_up();

  Reply init(std::uint32_t flags = ~0u & ~FUSE_INIT_EXT);
  Reply lookup(std::uint64_t parent, std::string_view name);
  // The node at a path; fails the test when there is none.
  std::uint64_t walk(std::initializer_list<std::string_view> path);
  Reply read(std::uint64_t node, std::uint64_t offset, std::uint32_t size);

  Session& session() { return *session_; }

 private:
  Fd socket_;
  std::unique_ptr<Session> session_;
  std::thread server_;
  std::atomic<bool> ended_ = false;
  std::uint64_t next_unique_ = 2;
};

}  // namespace dsec::fuse::test
