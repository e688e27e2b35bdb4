// SPDX-License-Identifier: Apache-2.0
// The mounts of a process, as /proc/PID/mountinfo tells them (Documentation/filesystems/proc.rst, section 3.5).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsec::launcher {

struct MountEntry {
  std::string root;  // which directory of the file system is mounted
  std::string mount_point;
  std::string type;     // "cgroup", "overlay", ...
  std::string options;  // of the file system, separated by commas
};

// Parses the text of a mountinfo file. Lines that cannot be parsed are skipped: a new kernel may add fields.
std::vector<MountEntry> parse_mountinfo(std::string_view text);
// The mounts of this process, in the order of mounting.
Result<std::vector<MountEntry>> read_mounts();

// Detaches every mount at or below `dir` in this process's namespace, last mounted first.
Result<void> detach_mounts_below(const std::filesystem::path& dir);

}  // namespace dsec::launcher
