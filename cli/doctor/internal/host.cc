// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/internal/host.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fcntl.h>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "base/fd.h"

namespace dsec::doctor {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxText = 4u << 20;
constexpr std::size_t kReadBytes = 64u << 10;

}  // namespace

// By large reads: a file of /proc/sys gives all it has to the first one and nothing to a second.
std::string HostFiles::read(const fs::path& path) const {
  std::string text;
  const auto fd = open_file(at(path), O_RDONLY);
  if (!fd) return text;
  Bytes buffer(kReadBytes);
  while (text.size() < kMaxText) {
    const auto bytes = read_some(*fd, buffer);
    if (!bytes || *bytes == 0) break;
    text += as_text(ByteView(buffer).first(*bytes));
  }
  return text;
}

fs::path nearest_existing(const fs::path& path) {
  std::error_code error;
  fs::path found = fs::absolute(path, error).lexically_normal();
  while (!fs::is_directory(found, error) && found.has_relative_path()) found = found.parent_path();
  return found;
}

Result<ScratchDir> ScratchDir::create(const fs::path& parent) {
  std::string path = (nearest_existing(parent) / ".dsec-doctor-XXXXXX").native();
  if (::mkdtemp(path.data()) == nullptr)
    return fail_sys(errno, fmt::format("create a directory in {}", parent.native()));
  return ScratchDir(path);
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

// A thread has a mount namespace and a root of its own once it unshares them; no process is needed.
Result<void> in_private_mounts(const std::function<void()>& body) {
  Result<void> outcome;
  std::thread([&] {
    if (::unshare(CLONE_NEWNS) != 0)
      outcome = fail_sys(errno, "enter a mount namespace");
    else if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      outcome = fail_sys(errno, "make / private");
    else
      body();
  }).join();
  return outcome;
}

}  // namespace dsec::doctor
