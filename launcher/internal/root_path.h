// SPDX-License-Identifier: Apache-2.0
// Paths inside a root file system that somebody hostile has made: symbolic links are followed as if the root were /,
// and nothing outside it is ever reached (openat2(2) with RESOLVE_IN_ROOT, and the same by hand where seccomp or an old
// kernel does not let us call it).
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace dsec::launcher {

// Opens `path` ("/etc/passwd") below `root`. Magic links of /proc are not followed. `not_found` means a component is
// missing. Use O_PATH or O_NONBLOCK for what may be no regular file.
Result<Fd> open_in_root(const Fd& root, std::string_view path, int flags);
// The variant by hand; for tests.
Result<Fd> open_in_root_by_hand(const Fd& root, std::string_view path, int flags);

// A regular file of at most `limit` bytes. `invalid` when it is something else or larger.
Result<std::string> read_in_root(const Fd& root, std::string_view path, std::uint64_t limit);

// mkdir -p: missing directories are made with `mode`, owned by root; existing ones stay as they are. Returns the last
// one (O_PATH). `invalid` when a component is no directory.
Result<Fd> make_dirs_in_root(const Fd& root, std::string_view path, mode_t mode);

// Sees to it that `path` is something that a file can be mounted on: makes the file and its directories when missing,
// and replaces a symbolic link that leads nowhere.
Result<void> make_file_in_root(const Fd& root, std::string_view path);

}  // namespace dsec::launcher
