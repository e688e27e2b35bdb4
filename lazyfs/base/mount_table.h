// SPDX-License-Identifier: Apache-2.0
// The mounts of a process, as /proc/PID/mountinfo tells them (Documentation/filesystems/proc.rst, section 3.5).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsec {

struct MountEntry {
  std::string device;  // "MAJOR:MINOR" of the file system
  std::string root;    // which directory of the file system is mounted
  std::string point;
  std::string type;     // "cgroup", "overlay", ...
  std::string options;  // of the file system, separated by commas
};

// Parses the text of a mountinfo file; escaped characters are undone. Lines that cannot be parsed are skipped: a new
// kernel may add fields.
std::vector<MountEntry> parse_mountinfo(std::string_view text);
// The mounts of this process, in the order of mounting. Touches none of them.
Result<std::vector<MountEntry>> read_mounts();

// The mount that shows an absolute path: of those above it the longest, and of several at a place the last. Null if
// none.
const MountEntry* mount_of(const std::vector<MountEntry>& mounts, std::string_view path);
// Whether `path` is `directory` or something in it. Both absolute, without "." and "..".
bool is_at_or_below(std::string_view path, std::string_view directory);

}  // namespace dsec
