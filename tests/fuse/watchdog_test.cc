// SPDX-License-Identifier: Apache-2.0
// A store that hangs, is damaged or gone: readers get EIO in time, never wrong bytes, and others go on.
#include <catch2/catch.hpp>
#include <cerrno>
#include <set>

#include "fuse/fuse_client.h"
#include "fuse/hanging.h"
#include "tree/tree_support.h"

namespace dsec::fuse::test {
namespace {

using std::chrono::milliseconds;
using namespace dsec::test;
using tree::test::World;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kDeadline{400};
constexpr milliseconds kSlack{2500};  // two looks of the watchdog, and a busy machine

SessionOptions two_threads() {
  SessionOptions options;
  options.threads = 2;
  options.request_deadline = kDeadline;
  return options;
}

TEST_CASE("a read that hangs in the store is EIO at its deadline, and is not answered again") {
  Hanging<Connection> hanging(1, two_threads());
  Connection& c = hanging.server();
  c.init();
  const std::uint64_t slow = c.walk({"env", "slow0"});
  const auto start = Clock::now();
  CHECK(c.read(slow, 0, 10).error == EIO);
  CHECK(Clock::now() - start >= kDeadline);
  CHECK(Clock::now() - start < kDeadline + kSlack);
  hanging.open();
  CHECK_FALSE(c.receive(milliseconds(200)));
  CHECK(as_text(c.read(slow, 0, 10).body) == "slow0");
}

TEST_CASE("while every thread hangs in the store, others are served again after the deadline") {
  Hanging<Connection> hanging(4, two_threads());
  Connection& c = hanging.server();
  c.init();
  const std::uint64_t fast = c.walk({"env", "fast"});
  std::set<std::uint64_t> hung;
  fuse_read_in in{};
  in.size = 10;
  std::vector<std::uint64_t> slow;
  for (const char* name : {"slow0", "slow1", "slow2", "slow3"}) slow.push_back(c.walk({"env", name}));
  for (const std::uint64_t node : slow) hung.insert(c.send(FUSE_READ, node, packed(in)));
  const std::uint64_t good = c.send(FUSE_READ, fast, packed(in));
  const auto start = Clock::now();
  bool good_came = false;
  for (int i = 0; i < 5; ++i) {
    const auto reply = c.receive();
    REQUIRE(reply);
    if (reply->unique == good) {
      good_came = true;
      CHECK(as_text(reply->body) == "fast");
    } else {
      CHECK(hung.erase(reply->unique) == 1);
      CHECK(reply->error == EIO);
    }
  }
  CHECK(good_came);
  CHECK(Clock::now() - start < 3 * (kDeadline + kSlack));
}

// One file whose chunk fails as told; what a reader of it sees.
int error_of_read(ErrorCode code, int sys) {
  World world;
  const auto layer = world.layer("/f regular content=x");
  auto source =
      std::make_shared<ScriptedSource>([&](const store::ChunkRequest&, store::Deadline) -> Result<store::Chunk> {
        return tl::unexpected(Error{code, "told to fail", sys});
      });
  auto names = std::make_shared<tree::Namespace>(std::make_unique<tree::ContentReader>(source, 1 << 20));
  names->attach("env", world.env("env", {layer}));
  Connection c(names, {});
  c.init();
  return c.read(c.walk({"env", "f"}), 0, 10).error;
}

TEST_CASE("a chunk that cannot be had is EIO for the reader, whatever the reason") {
  CHECK(error_of_read(ErrorCode::corrupt, 0) == EIO);
  CHECK(error_of_read(ErrorCode::timeout, 0) == EIO);
  CHECK(error_of_read(ErrorCode::not_found, ENOENT) == EIO);
  CHECK(error_of_read(ErrorCode::io, EIO) == EIO);
  CHECK(error_of_read(ErrorCode::io, ESTALE) == EIO);
  CHECK(error_of_read(ErrorCode::permission, EACCES) == EIO);
  CHECK(error_of_read(ErrorCode::no_space, EMFILE) == EIO);
}

}  // namespace
}  // namespace dsec::fuse::test
