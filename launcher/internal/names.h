// SPDX-License-Identifier: Apache-2.0
// Ids and names of sandboxes.
#pragma once

#include <string_view>

#include "base/result.h"

namespace dsec::launcher {

// [A-Za-z0-9][A-Za-z0-9_.-]{0,63}: safe as a file name, a cgroup and a host name. `invalid` says so and names `what`.
Result<void> check_name(std::string_view what, std::string_view name);

}  // namespace dsec::launcher
