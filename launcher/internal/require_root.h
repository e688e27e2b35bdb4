// SPDX-License-Identifier: Apache-2.0
// What every public function asks first, and the time as we write it.
#pragma once

#include <string>

#include "base/result.h"

namespace dsec::launcher {

// `permission` unless we are root.
Result<void> require_root();
// "2026-01-31T12:00:00Z"
std::string now_rfc3339();

}  // namespace dsec::launcher
