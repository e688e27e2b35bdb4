// SPDX-License-Identifier: Apache-2.0
// Who a command runs as, by the image's own /etc/passwd and /etc/group.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dsec::launcher {

struct ImageUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // additional ones, in the file's order
  std::string home = "/";
};

// `user` is "", "name", "uid", "name:group", "uid:gid", as Docker reads them: a number need not be in the files; a name
// must; additional groups are those that list the user, and none when a group is given. `not_found` says which name is
// in which file not. A file that is missing counts as empty.
Result<ImageUser> resolve_user(std::string_view user, std::string_view passwd, std::string_view group);

// The same with the files of the root file system.
Result<ImageUser> resolve_user_in_root(const Fd& root, std::string_view user);
inline constexpr std::uint64_t kMaxUserFile = 8u << 20;

}  // namespace dsec::launcher
