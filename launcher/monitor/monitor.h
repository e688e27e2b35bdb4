// SPDX-License-Identifier: Apache-2.0
// The life of one sandbox, from nothing to nothing.
#pragma once

#include <functional>

#include "base/fd.h"
#include "launcher/sandbox.h"

namespace dsec::launcher {

// Runs the sandbox that `spec` (with an id) describes, with descriptors 0, 1 and 2 as the command's, and removes it;
// see monitor_protocol.h for `control`. `answer` is called once, when the sandbox is gone but for files in the trash,
// which are deleted after it returns. All failures are results with infra. Changes this process for good: its mount
// namespace, its signal mask (all blocked), its children (it is their subreaper). Call it once, from a single thread.
void run_monitor(const SandboxSpec& spec, const Fd& control, const std::function<void(const SandboxResult&)>& answer);

}  // namespace dsec::launcher
