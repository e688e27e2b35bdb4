// SPDX-License-Identifier: Apache-2.0
// What only the transport through io_uring has: threads of a processor, their places, and no way back.
#include <fcntl.h>
#include <sched.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <future>

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

// Files "slow0".. whose chunks do not come before the gate is opened, and "fast".
struct Hanging {
  Hanging() {
    std::string lines = "/fast regular content=fast";
    for (int i = 0; i < kSlowFiles; ++i) lines += fmt::format("\n/slow{} regular content=slow{}", i, i);
    const auto layer = world.layer(lines);
    auto source = std::make_shared<ScriptedSource>(
        [this, inner = world.source()](const store::ChunkRequest& request, store::Deadline deadline) {
          if (request.digest != digest_of("fast")) gate.wait();
          return inner->fetch(request, deadline);
        });
    auto names = std::make_shared<tree::Namespace>(std::make_unique<tree::ContentReader>(source, 1 << 20));
    names->attach("env", world.env("env", {layer}));
    SessionOptions options;
    options.transport = Transport::io_uring;
    options.request_deadline = kDeadline;
    mount = std::make_unique<Mount>(names, options);
  }
  ~Hanging() { open(); }
  void open() {
    if (!std::exchange(is_open, true)) opener.set_value();
  }
  [[nodiscard]] std::future<int> read_slow(int i) const {
    return std::async(std::launch::async, [path = *mount / fmt::format("env/slow{}", i)] { return error_of(path); });
  }
  static int error_of(const std::filesystem::path& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char bytes[16];
    return fd.valid() && ::pread(fd.get(), bytes, sizeof bytes, 0) >= 0 ? 0 : errno;
  }

  bool is_open = false;
  std::promise<void> opener;
  std::shared_future<void> gate{opener.get_future()};
  World world;
  std::unique_ptr<Mount> mount;
};

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
  Hanging hanging;
  REQUIRE(hanging.mount->session().transport() == Transport::io_uring);
  const OnOneProcessor here;
  std::vector<std::future<int>> slow;
  slow.reserve(kSlowFiles);
  for (int i = 0; i < kSlowFiles; ++i) slow.push_back(hanging.read_slow(i));
  for (auto& one : slow) CHECK(one.get() == EIO);
  CHECK(read_text(*hanging.mount / "env/fast") == "fast");
  hanging.open();
  for (int i = 0; i < kSlowFiles; ++i)
    CHECK(read_text(*hanging.mount / fmt::format("env/slow{}", i)) == fmt::format("slow{}", i));
}

TEST_CASE("who waits when the file system is unmounted is told so") {
  NEED_RINGS();
  Hanging hanging;
  auto slow = hanging.read_slow(0);
  while (hanging.mount->session().requests_in_flight().empty()) std::this_thread::yield();
  hanging.mount->session().unmount();
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
