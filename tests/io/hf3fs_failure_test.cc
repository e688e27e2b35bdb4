// SPDX-License-Identifier: Apache-2.0
// What the 3FS engine does when a part of the library fails: deadlines, the fallback, rings that are closed and opened
// again, descriptors.
#include <thread>

#include "io/engines.h"
#include "io/hf3fs_support.h"

namespace dsec::io {
namespace {

using namespace dsec::test;
using std::chrono::milliseconds;

// One ring of one slot, which closes after three failures.
struct Bench {
  explicit Bench(milliseconds ring_timeout = milliseconds(60000), unsigned slots = 1) {
    Hf3fsOptions options;
    options.mount_point = "/";
    options.rings = 1;
    options.slots = slots;
    options.slot_bytes = 16 << 10;
    options.ring_timeout = ring_timeout;
    options.first_retry = milliseconds(20);
    options.last_retry = milliseconds(40);
    options.max_files = 3;
    options.counters = counters;
    auto made = make_hf3fs_engine(mock.api(), options, make_sync_engine());
    REQUIRE(made);
    engine = std::move(*made);
  }
  bool reads() const {
    const auto bytes = engine->read(file, 100, 5000, later());
    return bytes && std::equal(bytes->begin(), bytes->end(), content.begin() + 100);
  }
  bool reads_through_rings() const {
    const std::uint64_t before = counters->reads.get();
    return reads() && counters->reads.get() == before + 1;
  }

  TempDir dir;
  Bytes content = noise(1, 20000);
  std::shared_ptr<const Fd> file = file_with(dir / "file", content);
  Hf3fsMock mock;
  std::shared_ptr<Hf3fsCounters> counters = std::make_shared<Hf3fsCounters>();
  std::unique_ptr<ReadEngine> engine;  // ends before the stand-in looks at what is left
};

void wait_for(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(milliseconds(1));
}

TEST_CASE("a read that 3FS does not answer ends at its deadline, and its slot is not used before the answer came") {
  Bench bench;
  REQUIRE(bench.reads());
  bench.mock.set("hold", 1);
  const auto given_up = bench.engine->read(bench.file, 0, 5000, soon(milliseconds(30)));
  REQUIRE_FALSE(given_up);
  CHECK(given_up.error().code == ErrorCode::timeout);
  const long preps = bench.mock.count("preps");
  const auto no_slot = bench.engine->read(bench.file, 0, 5000, soon(milliseconds(30)));
  REQUIRE_FALSE(no_slot);
  CHECK(no_slot.error().code == ErrorCode::timeout);
  CHECK(bench.mock.count("preps") == preps);
  CHECK(bench.counters->abandoned.get() == 2);
  bench.mock.set("hold", 0);
  CHECK(bench.reads_through_rings());
}

TEST_CASE("a ring that fails again and again is closed, others answer, and it comes back later") {
  Bench bench(milliseconds(20), 8);
  bench.mock.set("hold", 1);
  for (int i = 0; i < 3; ++i) CHECK(bench.reads());
  CHECK(bench.counters->rings_closed.get() == 1);
  CHECK(bench.counters->fallbacks.get() == 3);
  const long preps = bench.mock.count("preps");
  CHECK(bench.reads());  // at once
  CHECK(bench.counters->fallbacks.get() == 4);
  CHECK(bench.mock.count("preps") == preps);
  bench.mock.set("hold", 0);
  wait_for([&] { return bench.reads_through_rings(); });
  CHECK(bench.counters->rings_opened.get() == 2);
}

TEST_CASE("a ring whose requests never end is left behind with them") {
  Bench bench(milliseconds(20), 8);
  bench.mock.set("never_every", 1);
  for (int i = 0; i < 3; ++i) CHECK(bench.reads());
  bench.mock.set("never_every", 0);
  wait_for([&] { return bench.reads_through_rings(); });
  CHECK(bench.mock.count("ended_in_flight") == 3);
}

TEST_CASE("without memory, a ring, or a registered descriptor reads fall back, and come back when it works again") {
  for (const char* step :
       {"iovcreate_errno", "iorcreate_errno", "reg_errno", "prep_errno", "submit_errno", "wait_errno"}) {
    INFO(step);
    Bench bench(milliseconds(100), 8);
    bench.mock.set(step, ENOMEM);
    for (int i = 0; i < 10; ++i) CHECK(bench.reads());
    // What was prepared may run although its submission failed, and even be quicker.
    if (step != std::string("submit_errno")) CHECK(bench.counters->reads.get() == 0);
    CHECK(bench.counters->reads.get() + bench.counters->fallbacks.get() == 10);
    bench.mock.set(step, 0);
    wait_for([&] { return bench.reads_through_rings(); });
  }
}

TEST_CASE("when the fallback fails too, its error is the one that is told") {
  Bench bench;
  const auto directory = open_shared(bench.dir.path());
  const auto bytes = bench.engine->read(directory, 0, 100, later());
  REQUIRE_FALSE(bytes);
  CHECK(bytes.error().sys == EISDIR);
}

TEST_CASE("descriptors are registered once, given back when their owner is gone, and never more than the limit") {
  Bench bench;
  for (int i = 0; i < 5; ++i) CHECK(bench.reads_through_rings());
  CHECK(bench.mock.count("regs") == 1);
  auto other = file_with(bench.dir / "other", bench.content);
  CHECK(bench.engine->read(other, 0, 100, later()));
  const std::weak_ptr<const Fd> watched = other;
  other.reset();
  CHECK(watched.expired());
  for (int i = 0; i < 64; ++i) CHECK(bench.reads_through_rings());
  CHECK(bench.mock.count("open_fds") == 1);
  std::vector<std::shared_ptr<const Fd>> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back(file_with(bench.dir / std::to_string(i), bench.content));
    CHECK(bench.engine->read(many.back(), 0, 100, later()));
  }
  CHECK(bench.mock.count("open_fds") == 3);
  CHECK(bench.mock.count("regs") == 12);
}

TEST_CASE("a file that 3FS has forgotten is registered anew") {
  Bench bench;
  CHECK(bench.reads_through_rings());
  bench.mock.set("error_errno", EBADF);
  bench.mock.set("error_every", 1);
  CHECK(bench.reads());
  bench.mock.set("error_every", 0);
  CHECK(bench.reads_through_rings());
  CHECK(bench.mock.count("regs") == 2);
}

TEST_CASE("an engine ends soon while requests are in flight") {
  Bench bench(milliseconds(20), 8);
  bench.mock.set("never_every", 2);
  for (int i = 0; i < 4; ++i) CHECK(bench.reads());
  bench.engine.reset();
  CHECK(bench.mock.count("open_rings") == 0);
}

TEST_CASE("rings of no slots, no rings, odd slots and exact batches are refused") {
  const Hf3fsMock mock;
  const auto code = [&](auto change) {
    Hf3fsOptions options;
    options.mount_point = "/";
    change(options);
    const auto made = make_hf3fs_engine(mock.api(), options, make_sync_engine());
    return made ? std::string() : std::string(to_string(made.error().code));
  };
  CHECK(code([](Hf3fsOptions&) {}).empty());
  CHECK(code([](Hf3fsOptions& o) { o.rings = 0; }) == "invalid");
  CHECK(code([](Hf3fsOptions& o) { o.slots = 0; }) == "invalid");
  CHECK(code([](Hf3fsOptions& o) { o.slots = 5000; }) == "invalid");
  CHECK(code([](Hf3fsOptions& o) { o.slot_bytes = 5000; }) == "invalid");
  CHECK(code([](Hf3fsOptions& o) { o.io_depth = 4; }) == "invalid");
  CHECK(code([](Hf3fsOptions& o) { o.ring_timeout = milliseconds(0); }) == "invalid");
  CHECK(code([](Hf3fsOptions& o) { o.mount_point = std::string(300, 'x'); }) == "invalid");
}

}  // namespace
}  // namespace dsec::io
