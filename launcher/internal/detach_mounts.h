// SPDX-License-Identifier: Apache-2.0
// Taking away what is mounted below a directory.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace dsec::launcher {

// Detaches every mount at or below `dir` in this process's namespace, last mounted first.
Result<void> detach_mounts_below(const std::filesystem::path& dir);

}  // namespace dsec::launcher
