// SPDX-License-Identifier: Apache-2.0
// How a FUSE session begins on a connection that another one has used.
#include "fuse/internal/wire.h"

#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "fuse/device.h"

namespace dsec::fuse {
namespace {

constexpr std::uint64_t kResent = std::uint64_t{1} << 63;

struct Ends {
  Ends() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    kernel = Fd(ends[0]);
    server = Fd(ends[1]);
  }
  void send(std::uint32_t opcode, std::uint64_t unique) const {
    fuse_in_header header{};
    header.len = sizeof header;
    header.opcode = opcode;
    header.unique = unique;
    REQUIRE(::write(kernel.get(), &header, sizeof header) == sizeof header);
  }
  Fd kernel;
  Fd server;
};

Bytes init_of(std::uint64_t unique, std::uint32_t flags, std::uint32_t flags2) {
  Bytes bytes(sizeof(fuse_in_header) + 64);
  fuse_in_header header{};
  header.len = static_cast<std::uint32_t>(bytes.size());
  header.opcode = FUSE_INIT;
  header.unique = unique;
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header + 12, &flags, sizeof flags);
  std::memcpy(bytes.data() + sizeof header + 16, &flags2, sizeof flags2);
  return bytes;
}

TEST_CASE("the recorded INIT is read first, then what comes from the descriptor") {
  const Ends ends;
  Wire wire(Wire::Resent::serve);
  const Bytes init = init_of(2, 0, 0);
  wire.give_init(init);
  ends.send(FUSE_GETATTR, 4);
  Bytes buffer(8192);
  REQUIRE(wire.read(ends.server.get(), buffer.data(), buffer.size()) == static_cast<ssize_t>(init.size()));
  CHECK(std::memcmp(buffer.data(), init.data(), init.size()) == 0);
  REQUIRE(wire.read(ends.server.get(), buffer.data(), buffer.size()) == sizeof(fuse_in_header));
  CHECK(wire.read(ends.server.get(), buffer.data(), buffer.size()) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("requests that come again are served, or answered EIO under the number that they came with") {
  const Ends ends;
  Bytes buffer(8192);
  ends.send(FUSE_READ, kResent | 6);
  Wire serving(Wire::Resent::serve);
  CHECK(serving.read(ends.server.get(), buffer.data(), buffer.size()) == sizeof(fuse_in_header));

  ends.send(FUSE_READ, kResent | 8);
  ends.send(FUSE_INTERRUPT, kResent | 9);  // has no answer
  ends.send(FUSE_READ, 10);
  Wire refusing(Wire::Resent::refuse);
  for (const std::uint64_t expected : {kResent | 9, std::uint64_t{10}}) {
    REQUIRE(refusing.read(ends.server.get(), buffer.data(), buffer.size()) == sizeof(fuse_in_header));
    fuse_in_header header{};
    std::memcpy(&header, buffer.data(), sizeof header);
    CHECK(header.unique == expected);
  }
  fuse_out_header reply{};
  REQUIRE(::read(ends.kernel.get(), &reply, sizeof reply) == sizeof reply);
  CHECK(reply.error == -EIO);
  CHECK(reply.unique == (kResent | 8));
  CHECK(::read(ends.kernel.get(), &reply, sizeof reply) == -1);
}

TEST_CASE("replies go out whole, whatever they are made of") {
  const Ends ends;
  const Wire wire(Wire::Resent::serve);
  Bytes page(10000, 7);
  const std::array<iovec, 3> parts{iovec{page.data(), 16}, iovec{nullptr, 0}, iovec{page.data(), page.size()}};
  CHECK(wire.write(ends.server.get(), parts.data(), 3) == static_cast<ssize_t>(16 + page.size()));
}

TEST_CASE("only a kernel that says so in its extended flags can send again") {
  constexpr std::uint32_t kExtended = 1u << 30;
  constexpr std::uint32_t kResend = 1u << 7;
  CHECK(can_resend(init_of(2, kExtended, kResend)));
  CHECK_FALSE(can_resend(init_of(2, 0, kResend)));
  CHECK_FALSE(can_resend(init_of(2, kExtended, ~kResend)));
  CHECK_FALSE(can_resend(Bytes(40)));
  CHECK_FALSE(can_resend({}));
}

}  // namespace
}  // namespace dsec::fuse
