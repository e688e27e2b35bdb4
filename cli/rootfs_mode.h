// SPDX-License-Identifier: Apache-2.0
// --rootfs-mode
#pragma once

#include <string_view>

#include "base/result.h"
#include "control/client.h"

namespace dsec::cli {

// "auto", "tree" or "objects"; `invalid` for others.
Result<control::RootfsMode> parse_rootfs_mode(std::string_view text);

}  // namespace dsec::cli
