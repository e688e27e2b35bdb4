// SPDX-License-Identifier: Apache-2.0
// The stand-in for 3FS's library, as tests use it.
#pragma once

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "io/hf3fs.h"

namespace dsec::test {

// One process has one stand-in. Making this resets it and puts its mount at `root`; the end expects that nobody broke a
// rule and that everything was given back.
class Hf3fsMock {
 public:
  explicit Hf3fsMock(const std::string& root = "/") {
    void* library = ::dlopen(HF3FS_MOCK_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    REQUIRE(library != nullptr);
    find(library, "hf3fs_mock_set", set_);
    find(library, "hf3fs_mock_count", count_);
    find(library, "hf3fs_mock_breach", breach_);
    find(library, "hf3fs_mock_reset", reset_);
    find(library, "hf3fs_mock_root", root_);
    auto loaded = io::load_hf3fs_api(HF3FS_MOCK_LIBRARY);
    REQUIRE(loaded);
    api_ = *loaded;
    reset_();
    root_(root.c_str());
  }
  Hf3fsMock(const Hf3fsMock&) = delete;
  Hf3fsMock& operator=(const Hf3fsMock&) = delete;
  ~Hf3fsMock() {
    CHECK(std::string(breach_()) == "");
    for (const char* level : {"open_rings", "open_iovs", "open_fds", "in_flight"}) {
      INFO(level);
      CHECK(count_(level) == 0);
    }
    root_("");
  }

  void set(const char* name, long value) { set_(name, value); }
  [[nodiscard]] long count(const char* name) const { return count_(name); }
  [[nodiscard]] std::string breach() const { return breach_(); }
  [[nodiscard]] const std::shared_ptr<const io::Hf3fsApi>& api() const { return api_; }

 private:
  template <typename Function>
  static void find(void* library, const char* name, Function& out) {
    out = reinterpret_cast<Function>(::dlsym(library, name));
    REQUIRE(out != nullptr);
  }
  void (*set_)(const char*, long) = nullptr;
  long (*count_)(const char*) = nullptr;
  const char* (*breach_)() = nullptr;
  void (*reset_)() = nullptr;
  void (*root_)(const char*) = nullptr;
  std::shared_ptr<const io::Hf3fsApi> api_;
};

// An engine over the stand-in, for the contract.
class EngineOverMock final : public io::ReadEngine {
 public:
  explicit EngineOverMock(io::Hf3fsOptions options) {
    options.mount_point = "/";
    auto made = io::make_hf3fs_engine(mock_.api(), std::move(options), io::make_sync_engine());
    REQUIRE(made);
    engine_ = std::move(*made);
  }
  Result<Bytes> read(const std::shared_ptr<const Fd>& fd, std::uint64_t offset, std::size_t length,
                     Deadline deadline) override {
    return engine_->read(fd, offset, length, deadline);
  }

 private:
  Hf3fsMock mock_;
  std::unique_ptr<io::ReadEngine> engine_;  // ends first
};

}  // namespace dsec::test
