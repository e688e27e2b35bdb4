// SPDX-License-Identifier: Apache-2.0
// Removing what dead monitors left; the public part is in sandbox.h.
#pragma once

#include <string>

#include "base/result.h"

namespace dsec::launcher {

// sweep_orphans() when the last one is longer ago than kSweepInterval; failures are logged, as nobody asked for it.
void sweep_now_and_then();

// Removes one sandbox whose monitor is dead; waits for its lock for a moment, as the kernel releases it only when the
// last process that had it is gone. An absent one is fine.
Result<void> sweep_one(const std::string& id);

}  // namespace dsec::launcher
