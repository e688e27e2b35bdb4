// SPDX-License-Identifier: Apache-2.0
// Leases whose connection went with a lazyfsd that died.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/guarded.h"

namespace dsec::daemon {

// A process, so that another one with the same number is not taken for it.
struct LeaseHolder {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // since boot; field 22 of /proc/PID/stat (proc(5))
};

// Nothing when there is no such process.
std::optional<LeaseHolder> holder_of(pid_t pid);

// The owners that a successor was left with: each is kept until its process ends, or until it connects again or
// detaches. Thread-safe.
class Leases {
 public:
  void keep(const std::string& owner, const LeaseHolder& holder);
  void forget(const std::string& owner);
  // Those whose process has ended, each once.
  std::vector<std::string> ended();

 private:
  Guarded<std::map<std::string, Fd>> processes_;  // pidfds; none: it has ended
};

}  // namespace dsec::daemon
