// SPDX-License-Identifier: Apache-2.0
// What this host can do for us, found out by trying.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dsec::doctor {

// One fact about the host. `found` is what is there; `consequence` says what works less well or not at all because of
// it, `remedy` what to do; both are empty when all is well.
struct Finding {
  enum class Level {
    ok,
    degraded,  // something is slower, smaller or not offered
    missing,   // sandboxes or mounts do not work at all
  };
  Level level = Level::ok;
  std::string topic;  // one stable word or two ("kernel", "fuse resend")
  std::string found;
  std::string consequence;
  std::string remedy;
};

struct DoctorOptions {
  std::filesystem::path store;
  std::filesystem::path runtime_dir;
  std::filesystem::path state_dir;
};

// Examines the host in well under a second. Mounts are tried in a mount namespace of their own; temporary directories
// (in the state directory, or in the nearest parent that exists) and cgroups are removed again. Cannot fail: what
// cannot be found out is a finding. Thread-safe.
std::vector<Finding> examine_host(const DoctorOptions& options);

// A table for people: what is fine on one line each, what is not with consequence and remedy; a summary at the end.
std::string to_text(std::span<const Finding> findings);
// {"findings": [{"level": "ok", "topic": ..., "found": ..., "consequence": ..., "remedy": ...}], "ok": true}
std::string to_json(std::span<const Finding> findings);

// 0, or 1 when something is missing.
int exit_code(std::span<const Finding> findings);

}  // namespace dsec::doctor
