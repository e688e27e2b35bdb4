// SPDX-License-Identifier: Apache-2.0
// libfuse's low-level API, in the version that we use.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
