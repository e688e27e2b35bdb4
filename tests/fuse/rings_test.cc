// SPDX-License-Identifier: Apache-2.0
// What only the transport through io_uring has: threads of a processor, their places, and no way back.
#include <fcntl.h>
#include <sched.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <future>

#include "fuse/hanging.h"
#include "fuse/mounted.h"
#include "fuse/rings.h"
#include "tree/tree_support.h"

namespace dsec::fuse::test {
namespace {

using namespace dsec::test;
using std::chrono::milliseconds;
using tree::test::World;

constexpr milliseconds kDeadline{400};
constexpr int kSlowFiles = 12;  // more than a processor has threads

SessionOptions through_rings() {
  SessionOptions options;
  options.transport = Transport::io_uring;
  options.request_deadline = kDeadline;
  return options;
}

// What a reader of a slow file gets: an errno, or 0.
std::future<int> read_slow(const Mount& mount, int i) {
  return std::async(std::launch::async, [path = mount / fmt::format("env/slow{}", i)] {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char bytes[16];
    return fd.valid() && ::pread(fd.get(), bytes, sizeof bytes, 0) >= 0 ? 0 : errno;
  });
}

// All threads of this process are on one processor, and so are their requests.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
      if (CPU_ISSET(i, &before_)) CPU_SET(i, &one);
    }
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

TEST_CASE("reads that hang in the store are EIO at their deadline, others are served again, and later reads work") {
  NEED_RINGS();
  Hanging<Mount> hanging(kSlowFiles, through_rings());
  const Mount& mount = hanging.server();
  REQUIRE(mount.session().transport() == Transport::io_uring);
  const OnOneProcessor here;
  std::vector<std::future<int>> slow;
  slow.reserve(kSlowFiles);
  for (int i = 0; i < kSlowFiles; ++i) slow.push_back(read_slow(mount, i));
  for (auto& one : slow) CHECK(one.get() == EIO);
  CHECK(read_text(mount / "env/fast") == "fast");
  hanging.open();
  for (int i = 0; i < kSlowFiles; ++i)
    CHECK(read_text(mount / fmt::format("env/slow{}", i)) == fmt::format("slow{}", i));
}

TEST_CASE("who waits when the file system is unmounted is told so") {
  NEED_RINGS();
  Hanging<Mount> hanging(1, through_rings());
  const Mount& mount = hanging.server();
  auto slow = read_slow(mount, 0);
  while (mount.session().requests_in_flight().empty()) std::this_thread::yield();
  mount.session().unmount();
  const int error = slow.get();
  CHECK((error == ENOTCONN || error == ECONNABORTED));
  hanging.open();
}

TEST_CASE("readers on all processors get the right bytes") {
  NEED_RINGS();
  World world;
  constexpr std::size_t kFiles = 64;
  constexpr std::size_t kBytes = 300 << 10;
  format::LayerTree tree;
  std::vector<Bytes> contents;
  for (std::size_t i = 0; i < kFiles; ++i) {
    contents.push_back(noise(i, kBytes + i));
    format::Inode inode;
    inode.size = contents.back().size();
    inode.object = world.content(contents.back(), 64 << 10);
    REQUIRE(tree.add(0, fmt::format("f{}", i), inode));
  }
  const auto layer = world.layer(tree);
  const std::shared_ptr<tree::Namespace> names = world.names();
  names->attach("env", world.env("env", {layer}));
  SessionOptions options;
  options.transport = Transport::io_uring;
  const Mount mount(names, options);
  std::vector<std::thread> readers;
  std::atomic<int> wrong = 0;
  for (std::size_t reader = 0; reader < 8; ++reader) {
    readers.emplace_back([&, reader] {
      for (std::size_t i = 0; i < kFiles; ++i) {
        const std::size_t which = (i * 7 + reader * 5) % kFiles;
        if (read_text(mount / fmt::format("env/f{}", which)) != as_text(contents[which])) ++wrong;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("without the kernel's offer requests come through the device") {
  NEED_FUSE();
  const OfferOfRings offer(OfferOfRings::Offer::no);
  if (!offer.holds()) SKIP_TEST("needs the right to set fuse.enable_uring");
  World world;
  const std::shared_ptr<tree::Namespace> names = world.names();
  names->attach("env", world.env("env", {world.layer("/f regular content=x")}));
  SessionOptions options;
  options.transport = Transport::io_uring;
  const Mount mount(names, options);
  CHECK(mount.session().transport() == Transport::device);
  CHECK(read_text(mount / "env/f") == "x");
}

TEST_CASE("an INIT without the offer is refused, and one that is cut short") {
  const Bytes nothing(104);
  CHECK(try_rings(nothing).error().code == ErrorCode::unsupported);
  CHECK(try_rings(ByteView(nothing).first(20)).error().code == ErrorCode::unsupported);
}

}  // namespace
}  // namespace dsec::fuse::test
