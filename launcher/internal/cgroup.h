// SPDX-License-Identifier: Apache-2.0
// Control groups: limits, accounting and the list of everything that runs in a sandbox.
//
// One interface over version 1 (Documentation/admin-guide/cgroup-v1), where each controller is a hierarchy, and version
// 2 (Documentation/admin-guide/cgroup-v2.rst). On a hybrid host the limits are those of version 1. A sandbox's group is
// dsec/<id> below the root of each hierarchy, or below our own group where the root cannot be written.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/mount_table.h"
#include "base/result.h"
#include "launcher/sandbox.h"

namespace dsec::launcher {

// How a process gets into a group at its birth, before it executes anything. Writing a pid costs an RCU grace period
// (over 10 ms); a single-threaded child that writes "0" for itself, or clone3(CLONE_INTO_CGROUP), does not.
struct CgroupJoin {
  std::vector<Fd> tasks;  // version 1: the child writes "0" to each
  Fd into;                // version 2: for clone3(2)
};

// One directory of a group and where the sandbox sees it below /sys/fs/cgroup ("" for /sys/fs/cgroup itself).
struct CgroupView {
  std::filesystem::path directory;
  std::string name;
};

// Processes of the sandbox that are ours, which limits.pids does not count: the runtime and process 1.
inline constexpr std::uint64_t kOwnProcesses = 2;

// Thread-safe: holds nothing but paths.
class CgroupDriver {
 public:
  virtual ~CgroupDriver() = default;
  [[nodiscard]] virtual std::string_view version() const = 0;  // "v1" or "v2"
  // The directories that create() makes. Write them down first: they are what remove_cgroups() needs after a crash.
  [[nodiscard]] virtual std::vector<std::filesystem::path> directories(const std::string& id) const = 0;
  // Makes the group, sets limits and the device policy. `exists` when the group is there; `unsupported` when a limit
  // that was asked for has no controller. On failure what was made stays for remove_cgroups().
  virtual Result<void> create(const std::string& id, const Limits& limits) = 0;
  virtual Result<CgroupJoin> open_join(const std::string& id) = 0;
  // How often the kernel killed in this group because of its memory limit.
  virtual Result<std::uint64_t> oom_kills(const std::string& id) = 0;
  [[nodiscard]] virtual std::vector<CgroupView> views(const std::string& id) const = 0;
};

// The driver for these mounts; `own_groups` is the text of /proc/self/cgroup. `unsupported` when no cgroup hierarchy is
// mounted.
Result<std::unique_ptr<CgroupDriver>> make_cgroup_driver(std::span<const MountEntry> mounts,
                                                         std::string_view own_groups);
// The driver for this process.
Result<std::unique_ptr<CgroupDriver>> detect_cgroups();

// Each kind, for detection and for tests. Version 2 with fewer controllers than a limit needs is found out in create().
std::unique_ptr<CgroupDriver> make_cgroup_v1(std::span<const MountEntry> mounts, std::string_view own_groups);
std::unique_ptr<CgroupDriver> make_cgroup_v2(std::span<const MountEntry> mounts, std::string_view own_groups);

// True when `directory` is one that a driver makes for sandbox `id`, by its name: .../dsec/<id>.
bool is_cgroup_of(std::string_view directory, const std::string& id);

// SIGKILL to every process in the groups, without waiting.
Result<void> kill_cgroups(std::span<const std::filesystem::path> directories);
// Kills what is in the groups, waits until they are empty and removes them, and their parents dsec/ when those are
// empty. Absent ones are fine. `io` names the group and a process when one does not die within kCgroupPatience.
Result<void> remove_cgroups(std::span<const std::filesystem::path> directories);
inline constexpr std::chrono::seconds kCgroupPatience{5};

// Used by the drivers.
inline constexpr const char* kCgroupParent = "dsec";
Result<void> write_knob(const std::filesystem::path& file, std::string_view value);
Result<std::string> read_knob(const std::filesystem::path& file);
// Makes <base>/dsec/<id>. `exists` when it is there.
Result<void> make_group(const std::filesystem::path& base, const std::string& id);
// The number after `key ` in a file of "key number" lines; 0 when the key is not there.
Result<std::uint64_t> read_counter(const std::filesystem::path& file, std::string_view key);
// The directory of a hierarchy below which we may make groups: its root, else our own group. `own` is our path in it.
std::filesystem::path base_group(const MountEntry& mount, std::string_view own);

}  // namespace dsec::launcher
