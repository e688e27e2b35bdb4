// SPDX-License-Identifier: Apache-2.0
// Parsers of what the kernel and programs say about themselves. Pure: text in, values out.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/mount_table.h"

namespace dsec::doctor {

struct KernelVersion {
  unsigned major = 0;
  unsigned minor = 0;
  friend auto operator<=>(const KernelVersion&, const KernelVersion&) = default;
};
// "6.18.44-amd64" and the like.
std::optional<KernelVersion> parse_kernel_release(std::string_view release);

// A number and nothing else but white space around it; nothing otherwise.
std::optional<std::uint64_t> parse_number(std::string_view text);

// Whether /proc/filesystems lists a type.
bool lists_filesystem(std::string_view filesystems, std::string_view type);

// The CapEff line of /proc/PID/status; 0 when there is none.
std::uint64_t effective_capabilities(std::string_view status);

// Which cgroup hierarchies are mounted, and where.
struct CgroupLayout {
  enum class Kind { none, v1, v2, hybrid } kind = Kind::none;
  std::map<std::string, std::string> v1;  // controller -> mount point
  std::string unified;                    // mount point of version 2, empty if none
};
CgroupLayout cgroup_layout(const std::vector<MountEntry>& mounts);
const char* to_string(CgroupLayout::Kind kind);
// Our own group in a hierarchy, from /proc/self/cgroup ("4:memory:/a/b"); "" stands for version 2. "/" when not listed.
std::string own_group(std::string_view cgroups, std::string_view controller);

// What the kernel offers in its first FUSE request (include/uapi/linux/fuse.h, struct fuse_init_in).
struct FuseOffer {
  std::uint32_t minor = 0;  // of protocol version 7
  bool resend = false;
  bool passthrough = false;
  bool io_uring = false;
};
// Nothing when the bytes are no FUSE_INIT request.
std::optional<FuseOffer> parse_fuse_init(ByteView request);

// "1.8.1" from `crun --version`; empty when it is not there.
std::string parse_crun_version(std::string_view text);

}  // namespace dsec::doctor
