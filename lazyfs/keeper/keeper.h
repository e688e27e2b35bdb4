// SPDX-License-Identifier: Apache-2.0
// Keeps the mounts of one store alive while lazyfsd comes and goes.
#pragma once

#include "base/result.h"
#include "keeper/options.h"

namespace dsec::keeper {

// Owns what must outlive lazyfsd: the lock of its directory, both /dev/fuse descriptors, the INIT of each, and the
// listening control socket, so that no client is refused while there is no lazyfsd. Starts lazyfsd with copies of them
// and starts it again when it dies; what the dead one had taken from the kernel comes to the next one once more.
//
// Returns when lazyfsd ended because it was asked to, or on SIGTERM, SIGINT or SIGHUP, with everything unmounted.
// `exists` when the directory has a keeper or daemon already; `unavailable` when lazyfsd cannot be started any more:
// the connections are cut then, so that readers get an error and never wait for nothing.
//
// One thread. It opens no file on the mounts and has no directory there: closing it could wait for lazyfsd.
Result<void> keep(KeeperOptions options);

}  // namespace dsec::keeper
