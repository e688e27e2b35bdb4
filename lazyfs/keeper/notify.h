// SPDX-License-Identifier: Apache-2.0
// Telling a service manager that the service is ready.
#pragma once

namespace dsec::keeper {

// Sends READY=1 to $NOTIFY_SOCKET where that is set (sd_notify(3)), and takes it out of the environment, so that no
// child takes it for its own. Whether anybody listens does not matter to us.
void notify_ready();

}  // namespace dsec::keeper
