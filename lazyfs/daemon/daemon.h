// SPDX-License-Identifier: Apache-2.0
// lazyfsd put together: store, caches, two mounts, control socket.
#pragma once

#include "base/result.h"
#include "daemon/settings.h"

namespace dsec::daemon {

// Runs until it is told to stop (control socket, SIGTERM, SIGINT) or has been idle for long enough. On return nothing
// of ours is mounted any more; who still used it gets ENOTCONN. `exists` when another daemon serves the same directory.
Result<void> run_daemon(const Settings& settings);

}  // namespace dsec::daemon
