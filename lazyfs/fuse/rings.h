// SPDX-License-Identifier: Apache-2.0
// Whether requests can come through io_uring instead of /dev/fuse (docs/decisions/0015-requests-through-io-uring.md).
#pragma once

#include "base/bytes.h"
#include "base/result.h"

namespace dsec::fuse {

// `init` is the FUSE_INIT that the kernel sent. `unsupported` says what is missing: a kernel that offers it (Linux 6.14
// with the parameter fuse.enable_uring), or the right to use io_uring.
Result<void> try_rings(ByteView init);

}  // namespace dsec::fuse
