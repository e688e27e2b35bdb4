// SPDX-License-Identifier: Apache-2.0
// The system calls that a sandbox may make, as data: the meaning of Docker's default profile
// (github.com/moby/profiles, seccomp/) for Docker's default capabilities. Everything else fails with EPERM.
#pragma once

#include <cstdint>
#include <span>

namespace dsec::launcher {

// Calls that are allowed whatever their arguments. Names that this architecture or this libseccomp does not know are
// skipped.
std::span<const char* const> allowed_calls();

// Calls younger than the libseccomp we may be linked with, by number: since 424 they are the same on every
// architecture.
struct NumberedCall {
  const char* name;
  int number;
};
std::span<const NumberedCall> allowed_new_calls();
// The first number that is younger than the youngest above: from here on a call fails with ENOSYS, so that C libraries
// fall back to an older one instead of taking EPERM for an answer.
inline constexpr int kFirstUnknownCall = 467;

// Calls that are allowed for some values of one argument: any of the rules is enough.
struct ArgumentRule {
  enum class Compare { equal, less, greater, masked_equal };
  const char* call;
  unsigned argument;
  Compare compare;
  std::uint64_t value;       // masked_equal: the mask
  std::uint64_t masked = 0;  // masked_equal: what must be left
};
std::span<const ArgumentRule> argument_rules();

// Calls that fail with ENOSYS: their flags are in memory, where a filter cannot see them, and callers have a fall-back.
std::span<const char* const> absent_calls();

}  // namespace dsec::launcher
