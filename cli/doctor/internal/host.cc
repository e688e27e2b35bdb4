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

constexpr std::uint64_t kMaxText = 4u << 20;

}  // namespace

std::string HostFiles::read(const fs::path& path) const {
  const auto bytes = read_file(at(path), kMaxText);
  return bytes ? std::string(as_text(*bytes)) : std::string();
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
