// SPDX-License-Identifier: Apache-2.0
// The read engines that every contract case runs over, and files for them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "io/hf3fs_support.h"
#include "io/read_engine.h"
#include "support/temp_dir.h"

namespace dsec::test {

struct NamedEngine {
  std::string name;
  std::function<Result<std::unique_ptr<io::ReadEngine>>()> make;
};

inline std::vector<NamedEngine> engines() {
  return {
      {"sync", []() -> Result<std::unique_ptr<io::ReadEngine>> { return io::make_sync_engine(); }},
      {"uring", [] { return io::make_uring_engine({}); }},
      {"uring of depth one",
       [] {
         return io::make_uring_engine({1, 1});
       }},
      {"uring with more rings than it can fill",
       [] {
         return io::make_uring_engine({5, 16});
       }},
      {"hf3fs over a stand-in",
       []() -> Result<std::unique_ptr<io::ReadEngine>> {
         return std::make_unique<EngineOverMock>(io::Hf3fsOptions{});
       }},
  };
}

// Runs `check` over every engine that this kernel has.
template <typename Check>
void for_every_engine(Check check) {
  for (const NamedEngine& engine : engines()) {
    INFO(engine.name);
    auto made = engine.make();
    if (!made && made.error().code == ErrorCode::unsupported) {
      WARN(engine.name << " left out: " << made.error().message);
      continue;
    }
    REQUIRE(made);
    check(**made);
  }
}

inline Deadline soon(std::chrono::milliseconds after) { return std::chrono::steady_clock::now() + after; }
// Any time that does not pass during a test.
inline Deadline later() { return soon(std::chrono::minutes(5)); }

inline Bytes noise(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

inline std::shared_ptr<const Fd> open_shared(const std::filesystem::path& path, int flags = O_RDONLY) {
  auto fd = open_file(path, flags, 0600);
  if (!fd) FAIL(fd.error().message);
  return std::make_shared<const Fd>(std::move(*fd));
}

inline std::shared_ptr<const Fd> file_with(const std::filesystem::path& path, ByteView bytes) {
  auto fd = open_shared(path, O_RDWR | O_CREAT | O_TRUNC);
  REQUIRE(write_all(*fd, bytes));
  return fd;
}

// So that the next read is one of the disk.
inline void forget_cached_pages(const Fd& fd) {
  REQUIRE(::fdatasync(fd.get()) == 0);
  REQUIRE(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
}

}  // namespace dsec::test
