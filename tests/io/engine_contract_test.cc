// SPDX-License-Identifier: Apache-2.0
// What every ReadEngine promises (io/read_engine.h).
#include <atomic>
#include <thread>

#include "io/engines.h"

namespace dsec::io {
namespace {

using namespace dsec::test;

constexpr std::size_t kFileBytes = (3 << 20) + 123;

TEST_CASE("every engine reads exactly the range it was asked for, cached or not") {
  const TempDir dir;
  const Bytes content = noise(1, kFileBytes);
  const auto file = file_with(dir / "file", content);
  for_every_engine([&](ReadEngine& engine) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 60; ++i) {
      if (i % 3 == 0) forget_cached_pages(*file);
      const std::size_t offset = random() % kFileBytes;
      const std::size_t length = random() % (kFileBytes - offset + 1);
      const auto bytes = engine.read(file, offset, length, later());
      REQUIRE(bytes);
      REQUIRE(*bytes == Bytes(content.begin() + offset, content.begin() + offset + length));
    }
    const auto whole = engine.read(file, 0, kFileBytes, Deadline::max());
    REQUIRE(whole);
    CHECK(*whole == content);
    const auto nothing = engine.read(file, 5, 0, later());
    REQUIRE(nothing);
    CHECK(nothing->empty());
  });
}

TEST_CASE("a range past the end of the file is corrupt for every engine, however far") {
  const TempDir dir;
  const auto file = file_with(dir / "file", noise(2, 10000));
  const auto empty = file_with(dir / "empty", {});
  for_every_engine([&](ReadEngine& engine) {
    const auto code = [&](const std::shared_ptr<const Fd>& fd, std::uint64_t offset, std::size_t length) {
      const auto bytes = engine.read(fd, offset, length, later());
      return bytes ? ErrorCode::internal : bytes.error().code;
    };
    CHECK(code(file, 0, 10001) == ErrorCode::corrupt);
    CHECK(code(file, 9999, 2) == ErrorCode::corrupt);
    CHECK(code(file, 10000, 1) == ErrorCode::corrupt);
    CHECK(code(file, std::uint64_t{1} << 40, 4096) == ErrorCode::corrupt);
    CHECK(code(file, std::uint64_t{1} << 62, 4096) == ErrorCode::corrupt);
    CHECK(code(file, ~std::uint64_t{0}, 1) == ErrorCode::corrupt);
    CHECK(code(file, ~std::uint64_t{0} - 10, 4096) == ErrorCode::corrupt);
    CHECK(code(empty, 0, 1) == ErrorCode::corrupt);
  });
}

TEST_CASE("a file that was truncated since is corrupt for every engine, and right again when it grew back") {
  const TempDir dir;
  const Bytes content = noise(3, 1 << 20);
  for_every_engine([&](ReadEngine& engine) {
    const auto file = file_with(dir / "file", content);
    REQUIRE(engine.read(file, 0, content.size(), later()));
    REQUIRE(::ftruncate(file->get(), 5000) == 0);
    const auto cut = engine.read(file, 0, content.size(), later());
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code == ErrorCode::corrupt);
    REQUIRE(::pwrite(file->get(), content.data() + 5000, content.size() - 5000, 5000) ==
            static_cast<ssize_t>(content.size() - 5000));
    const auto whole = engine.read(file, 0, content.size(), later());
    REQUIRE(whole);
    CHECK(*whole == content);
  });
}

TEST_CASE("what the system refuses keeps its errno with every engine") {
  const TempDir dir;
  const auto directory = open_shared(dir.path());
  const auto write_only = open_shared(dir / "written", O_WRONLY | O_CREAT);
  for_every_engine([&](ReadEngine& engine) {
    const auto from_directory = engine.read(directory, 0, 100, later());
    REQUIRE_FALSE(from_directory);
    CHECK(from_directory.error().code == ErrorCode::io);
    CHECK(from_directory.error().sys == EISDIR);
    const auto from_write_only = engine.read(write_only, 0, 100, later());
    REQUIRE_FALSE(from_write_only);
    CHECK(from_write_only.error().sys == EBADF);
  });
}

TEST_CASE("a deadline that has passed is a timeout for every engine") {
  const TempDir dir;
  const auto file = file_with(dir / "file", noise(4, 1000));
  for_every_engine([&](ReadEngine& engine) {
    const auto bytes = engine.read(file, 0, 1000, soon(std::chrono::seconds(-1)));
    REQUIRE_FALSE(bytes);
    CHECK(bytes.error().code == ErrorCode::timeout);
  });
}

TEST_CASE("many threads at once get each its own bytes from every engine") {
  const TempDir dir;
  const Bytes content = noise(5, kFileBytes);
  const auto file = file_with(dir / "file", content);
  for_every_engine([&](ReadEngine& engine) {
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 12; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int i = 0; i < 150; ++i) {
          const std::size_t length = 1 + random() % 50000;
          const std::size_t offset = random() % (kFileBytes - length);
          if (t == 0 && i % 10 == 0) ::posix_fadvise(file->get(), 0, 0, POSIX_FADV_DONTNEED);
          const auto bytes = engine.read(file, offset, length, later());
          if (!bytes || !std::equal(bytes->begin(), bytes->end(), content.begin() + offset)) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  });
}

TEST_CASE("threads that come and go leave the reads of others alone, with every engine") {
  const TempDir dir;
  const Bytes content = noise(6, 1 << 20);
  const auto file = file_with(dir / "file", content);
  for_every_engine([&](ReadEngine& engine) {
    std::atomic<int> wrong = 0;
    for (int round = 0; round < 30; ++round) {
      forget_cached_pages(*file);
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
          const std::size_t part = content.size() / 8;
          const auto bytes = engine.read(file, t * part, part, later());
          if (!bytes || !std::equal(bytes->begin(), bytes->end(), content.begin() + t * part)) ++wrong;
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    CHECK(wrong == 0);
  });
}

}  // namespace
}  // namespace dsec::io
