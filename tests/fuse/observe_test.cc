// SPDX-License-Identifier: Apache-2.0
// What a session shows of its requests: histograms, events, what is in flight, xattrs of its own.
#include <catch2/catch.hpp>
#include <cerrno>

#include "fuse/fuse_client.h"
#include "store/meters.h"
#include "support/gate.h"
#include "tree/tree_support.h"

namespace dsec::fuse::test {
namespace {

using namespace dsec::test;
using namespace std::chrono_literals;
using tree::test::World;

// Files "file" and "slow", whose chunk waits for the gate, with counting on top.
struct Observed {
  explicit Observed(SessionOptions::Xattrs xattrs = SessionOptions::Xattrs::no) {
    const auto layer = world.layer("/file regular content=hello xattr:user.own=mine\n/slow regular content=slow");
    auto script = [this, inner = world.source()](const store::ChunkRequest& request, store::Deadline deadline) {
      if (request.digest == digest_of("slow")) {
        const store::StageScope stage(store::Stage::store);
        gate.wait();
      }
      return inner->fetch(request, deadline);
    };
    const std::shared_ptr<store::ChunkSource> source =
        store::metered_by_origin(std::make_unique<ScriptedSource>(script), std::make_shared<store::OriginMeter>());
    names = std::make_shared<tree::Namespace>(std::make_unique<tree::ContentReader>(source, 1 << 20));
    names->attach("env", world.env("env", {layer}));
    SessionOptions options;
    options.xattrs = xattrs;
    options.threads = 2;
    options.request_deadline = kDeadline;
    options.tap = tap;
    options.where = [](const format::MapEntry&) { return store::Origin::cache; };
    connection = std::make_unique<Connection>(names, options);
    connection->init();
    file = connection->walk({"env", "file"});
    slow = connection->walk({"env", "slow"});
  }
  ~Observed() { open(); }
  void open() { gate.open(); }
  [[nodiscard]] std::uint64_t count(Operation operation) const {
    return connection->session().stats().took[static_cast<std::size_t>(operation)].snapshot().count;
  }
  [[nodiscard]] std::uint64_t eio(Operation operation) const {
    return connection->session().stats().eio[static_cast<std::size_t>(operation)].get();
  }
  Reply getxattr(std::string_view name) const {
    fuse_getxattr_in in{};
    in.size = 200;
    return connection->call(FUSE_GETXATTR, file, packed(in, terminated(name)));
  }

  static constexpr std::chrono::milliseconds kDeadline{1500};
  Gate gate;
  World world;
  std::shared_ptr<RequestTap> tap = std::make_shared<RequestTap>();
  std::shared_ptr<tree::Namespace> names;
  std::unique_ptr<Connection> connection;
  std::uint64_t file = 0;
  std::uint64_t slow = 0;
};

TEST_CASE("who has an answer finds it counted, by operation") {
  Observed observed;
  const std::uint64_t lookups = observed.count(Operation::lookup);
  observed.connection->lookup(1, "env");
  CHECK(observed.count(Operation::lookup) == lookups + 1);
  CHECK(observed.count(Operation::read) == 0);
  for (int i = 0; i < 5; ++i) CHECK(observed.connection->read(observed.file, 0, 10).error == 0);
  CHECK(observed.count(Operation::read) == 5);
  CHECK(observed.connection->call(FUSE_GETATTR, observed.file, packed(fuse_getattr_in{})).error == 0);
  CHECK(observed.count(Operation::getattr) == 1);
  CHECK(observed.eio(Operation::read) == 0);
}

TEST_CASE("a request that waits is in flight, with what it waits for, and at the deadline it is overdue and EIO") {
  Observed observed;
  const std::uint64_t unique = observed.connection->send(FUSE_READ, observed.slow, [] {
    fuse_read_in in{};
    in.offset = 1;
    in.size = 3;
    return packed(in);
  }());
  const auto waiting = [&] {
    const auto list = observed.connection->session().requests_in_flight();
    return list.size() == 1 && list[0].stage == store::Stage::store;
  };
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!waiting() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  const auto list = observed.connection->session().requests_in_flight();
  REQUIRE(list.size() == 1);
  CHECK(list[0].operation == Operation::read);
  CHECK(list[0].node.value() == observed.slow);
  CHECK((list[0].offset == 1 && list[0].length == 3));
  CHECK_FALSE(list[0].is_overdue);
  const auto reply = observed.connection->receive();
  REQUIRE(reply);
  CHECK((reply->unique == unique && reply->error == EIO));
  CHECK(observed.eio(Operation::read) == 1);
  CHECK(observed.connection->session().stats().overdue.get() == 1);
  CHECK(observed.connection->session().requests_in_flight().at(0).is_overdue);
  observed.open();
}

TEST_CASE("a listener gets each answer with its cost, and nothing is published when it has gone") {
  Observed observed;
  CHECK_FALSE(observed.tap->is_on());
  auto listener = std::make_shared<RequestListener>();
  observed.tap->add(listener);
  observed.connection->read(observed.file, 2, 10);
  observed.connection->lookup(observed.connection->walk({"env"}), "none");
  auto batch = listener->take(100, 5s);
  REQUIRE(batch.events.size() == 3);
  CHECK(batch.dropped == 0);
  const RequestEvent& read = batch.events[0];
  CHECK(read.operation == Operation::read);
  CHECK((read.node.value() == observed.file && read.offset == 2 && read.length == 10 && read.error == 0));
  CHECK(read.cost.of(store::Origin::store).chunks == 1);
  CHECK(read.cost.of(store::Origin::store).bytes == 5);
  CHECK((batch.events[2].name == "none" && batch.events[2].error == ENOENT));
  listener.reset();
  observed.connection->lookup(1, "env");
  CHECK_FALSE(observed.tap->is_on());
}

TEST_CASE("a listener that does not take its events loses the newest and is told how many") {
  RequestListener listener;
  for (std::size_t i = 0; i < RequestListener::kMaxEvents + 7; ++i) listener.put({});
  std::size_t taken = 0;
  std::uint64_t dropped = 0;
  for (auto batch = listener.take(1000, 0ms); !batch.events.empty(); batch = listener.take(1000, 0ms)) {
    taken += batch.events.size();
    dropped += batch.dropped;
  }
  CHECK(taken == RequestListener::kMaxEvents);
  CHECK(dropped == 7);
}

std::string text(const Reply& reply) { return {reply.body.begin(), reply.body.end()}; }

TEST_CASE("user.lazyfs.* tell where a file is, and a listing does not have them") {
  const Observed observed(SessionOptions::Xattrs::yes);
  CHECK(text(observed.getxattr("user.lazyfs.digest")) == digest_of("hello").hex());
  CHECK(text(observed.getxattr("user.lazyfs.layer")).size() == 64);
  CHECK(text(observed.getxattr("user.lazyfs.chunks")) == "1");
  CHECK(text(observed.getxattr("user.lazyfs.cached")) == "memory=0 disk=1 store=0");
  CHECK(text(observed.getxattr("user.own")) == "mine");
  CHECK(observed.getxattr("user.lazyfs.other").error == ENODATA);
  fuse_getxattr_in in{};
  in.size = 200;
  CHECK(text(observed.connection->call(FUSE_LISTXATTR, observed.file, packed(in))) == std::string("user.own\0", 9));
}

TEST_CASE("a mount without xattrs has none of ours either") {
  const Observed observed;
  CHECK(observed.getxattr("user.lazyfs.digest").error == ENOSYS);
}

}  // namespace
}  // namespace dsec::fuse::test
