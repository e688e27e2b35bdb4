// SPDX-License-Identifier: Apache-2.0
#include "control/wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/temp_dir.h"

namespace dsec::control {
using test::TempDir;
namespace {

struct Ends {
  Ends() {
    int fds[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    ours = Fd(fds[0]);
    theirs = Fd(fds[1]);
  }
  Fd ours;
  Fd theirs;
};

constexpr int kWaitMs = 5000;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 256; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1u : 0u;
  return count;
}

bool same_file(const Fd& a, const Fd& b) {
  return stat_fd(a)->st_ino == stat_fd(b)->st_ino && stat_fd(a)->st_dev == stat_fd(b)->st_dev;
}

TEST_CASE("messages arrive in order, whatever their size") {
  const Ends ends;
  const std::string large(100000, 'x');
  REQUIRE(send_message(ends.ours, {{"n", 1}, {"text", large}}));
  REQUIRE(send_message(ends.ours, {{"n", 2}}));
  std::string rest;
  CHECK(receive_message(ends.theirs, rest, kWaitMs).value()["text"] == large);
  CHECK(receive_message(ends.theirs, rest, kWaitMs).value()["n"] == 2);
}

TEST_CASE("a descriptor comes with its message, closed on exec") {
  const Ends ends;
  const Pipe pipe = make_pipe().value();
  REQUIRE(send_message(ends.ours, {{"n", 1}}, pipe.read_end.get()));
  std::string rest;
  Fd passed;
  REQUIRE(receive_message(ends.theirs, rest, kWaitMs, &passed));
  REQUIRE(passed.valid());
  CHECK(passed.get() != pipe.read_end.get());
  CHECK(same_file(passed, pipe.read_end));
  CHECK((::fcntl(passed.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a descriptor that nobody wants is closed") {
  const Ends ends;
  const Pipe pipe = make_pipe().value();
  const std::size_t before = open_descriptors();
  std::string rest;
  for (int i = 0; i < 10; ++i) {
    REQUIRE(send_message(ends.ours, {{"n", i}}, pipe.read_end.get()));
    CHECK(receive_message(ends.theirs, rest, kWaitMs).value()["n"] == i);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a peer that is gone, and one that says nothing") {
  Ends ends;
  std::string rest;
  CHECK(receive_message(ends.theirs, rest, 1).error().code == ErrorCode::timeout);
  ends.ours.reset();
  CHECK(receive_message(ends.theirs, rest, kWaitMs).error().code == ErrorCode::unavailable);
  CHECK(send_message(ends.theirs, {{"n", 1}}).error().code == ErrorCode::unavailable);
}

TEST_CASE("who takes no connection is not waited for without end") {
  const TempDir dir;
  const Fd listener = listen_on(dir / "socket").value();
  REQUIRE(::listen(listener.get(), 0) == 0);  // one waits; the next one has no place
  const auto first = connect_to(dir / "socket", kWaitMs);
  REQUIRE(first);
  CHECK(connect_to(dir / "socket", 20).error().code == ErrorCode::timeout);
  CHECK(connect_to(dir / "absent", 20).error().code == ErrorCode::unavailable);
}

}  // namespace
}  // namespace dsec::control
