// SPDX-License-Identifier: Apache-2.0
#include "control/handover.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "keeper/options.h"

namespace dsec {
namespace {

using control::Handover;

TEST_CASE("a handover arrives as it was given") {
  Handover given;
  given.mountpoints = {"/run/a b/mnt", "/run/a b/mnt-xattr"};
  given.inits = {Bytes{0, 1, 255, 16}, Bytes(104, 0xa5)};
  given.arguments = {"--store", "/s", "--threads", "2"};
  given.in_flight = Handover::InFlight::refuse;
  given.keeper = 17;
  given.daemon = 18;
  given.restarts = 19;
  given.last_reason = "killed by signal 9 (KILL)";
  const auto file = control::write_handover(given);
  REQUIRE(file);
  for (int i = 0; i < 2; ++i) {
    const auto taken = control::read_handover(*file);
    REQUIRE(taken);
    CHECK(taken->mountpoints == given.mountpoints);
    CHECK(taken->inits == given.inits);
    CHECK(taken->arguments == given.arguments);
    CHECK(taken->in_flight == given.in_flight);
    CHECK(taken->keeper == 17);
    CHECK(taken->daemon == 18);
    CHECK(taken->restarts == 19);
    CHECK(taken->last_reason == given.last_reason);
  }
}

TEST_CASE("what is no handover is refused") {
  for (const char* text : {"", "{}", "[1]", R"({"arguments":[],"in_flight":"perhaps"})"}) {
    const auto file = unnamed_file("/tmp");
    REQUIRE(file);
    REQUIRE(write_all(*file, as_bytes(text)));
    CHECK_FALSE(control::read_handover(*file));
  }
}

TEST_CASE("a signal to who is gone fails, one to who does not listen does not block") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd ours(ends[0]);
  Fd theirs(ends[1]);
  for (int i = 0; i < 10000; ++i) REQUIRE(control::send_signal(ours, control::Signal::beat));
  theirs.reset();
  CHECK_FALSE(control::send_signal(ours, control::Signal::beat));
}

TEST_CASE("the keeper keeps its own options and hands the others on") {
  const auto options =
      keeper::parse_options({"--store", "/s", "--threads", "2", "--dir", "/d", "--ready-fd", "7", "--idle-exit", "5s"});
  REQUIRE(options);
  CHECK(options->dir == "/d");
  CHECK(options->ready_fd == 7);
  CHECK(options->arguments ==
        std::vector<std::string>{"--store", "/s", "--dir", "/d", "--threads", "2", "--idle-exit", "5s"});
  // Those go to a keeper that replaces it, and must mean the same there.
  const auto again = keeper::parse_options(options->arguments);
  REQUIRE(again);
  CHECK(again->arguments == options->arguments);
}

TEST_CASE("wrong options of the keeper are named") {
  CHECK_FALSE(keeper::parse_options({}));
  CHECK_FALSE(keeper::parse_options({"--store"}));
  const auto bad = keeper::parse_options({"--store", "/s", "--ready-fd", "x1"});
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message.find("x1") != std::string::npos);
}

}  // namespace
}  // namespace dsec
