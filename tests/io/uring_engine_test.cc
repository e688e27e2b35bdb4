// SPDX-License-Identifier: Apache-2.0
// What the io_uring engine has over the plain one: it can give reads up.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "io/engines.h"
#include "support/skip.h"

namespace dsec::io {
namespace {

using namespace dsec::test;
using std::chrono::milliseconds;

std::unique_ptr<ReadEngine> engine_or_null(unsigned depth) {
  auto engine = make_uring_engine({depth, 1});
  return engine ? std::move(*engine) : nullptr;
}

// A file whose reads hang until somebody writes: what a dead server looks like to the kernel's reader.
struct Hanging {
  Hanging() {
    auto pipe = make_pipe();
    REQUIRE(pipe);
    reader = std::make_shared<const Fd>(std::move(pipe->read_end));
    writer = std::move(pipe->write_end);
  }
  std::shared_ptr<const Fd> reader;
  Fd writer;
};

TEST_CASE("a read that hangs is given up at its deadline and others go on") {
  const auto engine = engine_or_null(8);
  if (!engine) SKIP_TEST("no io_uring here");
  const TempDir dir;
  const Bytes content = noise(1, 100000);
  const auto file = file_with(dir / "file", content);
  const Hanging hanging;
  const auto given_up = engine->read(hanging.reader, 0, 10, soon(milliseconds(30)));
  REQUIRE_FALSE(given_up);
  CHECK(given_up.error().code == ErrorCode::timeout);
  for (int i = 0; i < 20; ++i) {
    forget_cached_pages(*file);
    const auto bytes = engine->read(file, 0, content.size(), later());
    REQUIRE(bytes);
    CHECK(*bytes == content);
  }
}

TEST_CASE("callers beyond the depth wait, and go on when a read ends") {
  const auto engine = engine_or_null(2);
  if (!engine) SKIP_TEST("no io_uring here");
  const Hanging hanging;
  std::atomic<int> arrived = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 5; ++t) {
    threads.emplace_back([&] { arrived += engine->read(hanging.reader, 0, 4, later()) ? 1 : 0; });
  }
  for (int i = 0; i < 5; ++i) {
    REQUIRE(write_all(hanging.writer, as_bytes("word")));
    while (arrived <= i) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(arrived == 5);
}

TEST_CASE("a caller that gets no turn before its deadline times out") {
  const auto engine = engine_or_null(1);
  if (!engine) SKIP_TEST("no io_uring here");
  const TempDir dir;
  const auto file = file_with(dir / "file", noise(1, 100000));
  Hanging hanging;
  std::atomic<bool> occupant_read = false;
  std::thread occupant([&] { occupant_read = engine->read(hanging.reader, 0, 4, later()).has_value(); });
  Result<Bytes> late = Bytes();
  do {  // until the occupant has its turn
    forget_cached_pages(*file);
    late = engine->read(file, 0, 100000, soon(milliseconds(20)));
  } while (late);
  CHECK(late.error().code == ErrorCode::timeout);
  REQUIRE(write_all(hanging.writer, as_bytes("word")));
  occupant.join();
  CHECK(occupant_read);
  CHECK(engine->read(file, 0, 100000, later()));
}

TEST_CASE("bytes that come in pieces are put together, and an end between them is corrupt") {
  const auto engine = engine_or_null(4);
  if (!engine) SKIP_TEST("no io_uring here");
  Hanging hanging;
  std::thread pieces([&] {
    for (const char* piece : {"a", "bc", "def"}) {
      [[maybe_unused]] const auto written = write_all(hanging.writer, as_bytes(piece));
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  const auto bytes = engine->read(hanging.reader, 0, 6, later());
  pieces.join();
  REQUIRE(bytes);
  CHECK(as_text(*bytes) == "abcdef");
  REQUIRE(write_all(hanging.writer, as_bytes("xy")));
  hanging.writer.reset();
  const auto cut = engine->read(hanging.reader, 0, 6, later());
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code == ErrorCode::corrupt);
}

TEST_CASE("the descriptor stays open for a read that was given up") {
  auto engine = engine_or_null(4);
  if (!engine) SKIP_TEST("no io_uring here");
  Hanging hanging;
  const std::weak_ptr<const Fd> watched = hanging.reader;
  for (int i = 0; i < 4; ++i) CHECK_FALSE(engine->read(hanging.reader, 0, 10, soon(milliseconds(5))));
  hanging.reader.reset();
  engine.reset();  // cancelled reads have come back by then
  CHECK(watched.expired());
}

TEST_CASE("signals do not disturb a read") {
  const auto engine = engine_or_null(4);
  if (!engine) SKIP_TEST("no io_uring here");
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);
  const Hanging hanging;
  std::atomic<bool> done = false;
  std::atomic<bool> was_read = false;
  std::thread reader([&] {
    was_read = engine->read(hanging.reader, 0, 4, later()).has_value();
    done = true;
  });
  for (int i = 0; i < 200; ++i) {
    ::pthread_kill(reader.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  CHECK_FALSE(done);
  REQUIRE(write_all(hanging.writer, as_bytes("word")));
  reader.join();
  CHECK(was_read);
  ::sigaction(SIGUSR1, &before, nullptr);
}

// Exits with 0 when the engine says "unsupported" under a filter that refuses io_uring_setup with `error`.
int try_without_io_uring(int error) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter { 4, program };
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    return 2;
  }
  const auto engine = make_uring_engine({});
  return !engine && engine.error().code == ErrorCode::unsupported ? 0 : 1;
}

TEST_CASE("where io_uring is missing or not allowed the engine is unsupported") {
  for (const int error : {ENOSYS, EPERM}) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(try_without_io_uring(error));
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

}  // namespace
}  // namespace dsec::io
