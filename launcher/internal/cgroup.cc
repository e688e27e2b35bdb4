// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <thread>

#include "base/text.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxKnob = 4u << 20;

std::uint64_t to_number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Pids of a group; empty when the group is gone. 0 stands for a process outside our pid namespace.
std::vector<pid_t> processes_of(const fs::path& directory) {
  std::vector<pid_t> pids;
  const Result<std::string> text = read_knob(directory / "cgroup.procs");
  if (!text) return pids;
  for (const std::string_view line : split(*text, '\n')) {
    if (!line.empty()) pids.push_back(static_cast<pid_t>(to_number(line)));
  }
  return pids;
}

// Kills `pid` if it is in a group of this name when the signal is sent: a pid may be used again, a pidfd is not.
void kill_member(pid_t pid, const std::string& group) {
  if (pid <= 0) return;
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) return;
  const Result<std::string> groups = read_knob(fmt::format("/proc/{}/cgroup", pid));
  if (!groups || groups->find(group) == std::string::npos) return;
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
}

// True when the directory is gone or removed; false when it is busy.
Result<bool> try_remove(const fs::path& directory) {
  if (::rmdir(directory.c_str()) == 0 || errno == ENOENT) return true;
  if (errno == EBUSY) return false;
  return fail_sys(errno, fmt::format("remove cgroup {}", directory.native()));
}

}  // namespace

Result<void> write_knob(const fs::path& file, std::string_view value) {
  const Fd fd = TRY(open_file(file, O_WRONLY));
  const Result<void> written = write_all(fd, as_bytes(value));
  if (!written) return fail_sys(written.error().sys, fmt::format("write \"{}\" to {}", value, file.native()));
  return {};
}

Result<std::string> read_knob(const fs::path& file) {
  const Bytes bytes = TRY(read_file(file, kMaxKnob));
  std::string text(as_text(bytes));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<void> make_group(const fs::path& base, const std::string& id) {
  const fs::path parent = base / kCgroupParent;
  // Another sandbox that ends may remove the parent between the two calls, but not for ever.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) {
      return fail_sys(errno, fmt::format("create cgroup {}", parent.native()));
    }
    if (::mkdir((parent / id).c_str(), 0755) == 0) return {};
    if (errno == ENOENT) continue;
    if (errno == EEXIST) {
      return fail(ErrorCode::exists, "cgroup {} is there already: choose another id, or remove it with rmdir",
                  (parent / id).native());
    }
    break;
  }
  return fail_sys(errno, fmt::format("create cgroup {}", (parent / id).native()));
}

Result<std::uint64_t> read_counter(const fs::path& file, std::string_view key) {
  const std::string text = TRY(read_knob(file));
  for (const std::string_view line : split(text, '\n')) {
    if (starts_with(line, key) && line.size() > key.size() && line[key.size()] == ' ') {
      return to_number(line.substr(key.size() + 1));
    }
  }
  return 0;
}

fs::path base_group(const MountEntry& mount, std::string_view own) {
  const fs::path root = mount.point;
  if (::access(root.c_str(), W_OK) == 0) return root;
  if (mount.root != "/" && starts_with(own, mount.root)) own.remove_prefix(mount.root.size());
  while (!own.empty() && own[0] == '/') own.remove_prefix(1);
  return own.empty() ? root : root / own;
}

Result<std::unique_ptr<CgroupDriver>> make_cgroup_driver(std::span<const MountEntry> mounts,
                                                         std::string_view own_groups) {
  if (auto driver = make_cgroup_v1(mounts, own_groups)) return driver;
  if (auto driver = make_cgroup_v2(mounts, own_groups)) return driver;
  return fail(ErrorCode::unsupported, "no cgroup hierarchy is mounted: mount -t cgroup2 none /sys/fs/cgroup");
}

Result<std::unique_ptr<CgroupDriver>> detect_cgroups() {
  const std::vector<MountEntry> mounts = TRY(read_mounts());
  return make_cgroup_driver(mounts, TRY(read_knob("/proc/self/cgroup")));
}

bool is_cgroup_of(std::string_view directory, const std::string& id) {
  const fs::path path(directory);
  return path.is_absolute() && path == path.lexically_normal() && path.filename() == id &&
         path.parent_path().filename() == kCgroupParent;
}

Result<void> kill_cgroups(std::span<const fs::path> directories) {
  for (const fs::path& directory : directories) {
    if (::access((directory / "cgroup.kill").c_str(), F_OK) == 0) {
      TRY(write_knob(directory / "cgroup.kill", "1"));
      continue;
    }
    const std::string group = fmt::format("/{}/{}", kCgroupParent, directory.filename().native());
    for (const pid_t pid : processes_of(directory)) kill_member(pid, group);
  }
  return {};
}

Result<void> remove_cgroups(std::span<const fs::path> directories) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + kCgroupPatience;
  auto pause = std::chrono::microseconds(200);
  std::vector<fs::path> left(directories.begin(), directories.end());
  while (true) {
    std::vector<fs::path> busy;
    for (const fs::path& directory : left) {
      if (!TRY(try_remove(directory))) busy.push_back(directory);
    }
    left = std::move(busy);
    if (left.empty()) break;
    TRY(kill_cgroups(left));
    if (steady_clock::now() > deadline) {
      const std::vector<pid_t> pids = processes_of(left[0]);
      return fail(ErrorCode::io, "cgroup {} does not become empty (process {} does not die)", left[0].native(),
                  pids.empty() ? 0 : pids[0]);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
  for (const fs::path& directory : directories) ::rmdir(directory.parent_path().c_str());
  return {};
}

}  // namespace dsec::launcher
