// SPDX-License-Identifier: Apache-2.0
// The descriptors of dsec-monitor and what is said over them.
#pragma once

namespace dsec::launcher {

// 0, 1 and 2 are the command's.
inline constexpr int kSpecFd = 3;        // a file: the specification (spec_json.h), with an id
inline constexpr int kResultFd = 4;      // a pipe: one result (spec_json.h), then end of file
inline constexpr int kControlFd = 5;     // a stream socket: one byte a signal; end of file: the client is dead
inline constexpr int kLowerMountFd = 6;  // only with SandboxSpec::lower_mount; the specification's lower is it then

}  // namespace dsec::launcher
