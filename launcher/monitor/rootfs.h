// SPDX-License-Identifier: Apache-2.0
// Everything a sandbox's bundle needs before the runtime starts.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "launcher/internal/cgroup.h"
#include "launcher/sandbox.h"

namespace dsec::launcher {

// Where the parts of one sandbox are (state.h has the picture).
struct SandboxPaths {
  std::filesystem::path writable;  // has upper/ and work/
  std::filesystem::path scratch;   // all that nobody needs after the run
  [[nodiscard]] std::filesystem::path upper() const { return writable / "upper"; }
  [[nodiscard]] std::filesystem::path work() const { return writable / "work"; }
  [[nodiscard]] std::filesystem::path merged() const { return scratch / "merged"; }
  [[nodiscard]] std::filesystem::path bundle() const { return scratch / "bundle"; }
};

// A mount namespace of this process, in which mounts of the host still appear and disappear but ours stay ours, with a
// tmpfs on `scratch`: the same directory for every sandbox, and gone without a trace when the process is. With cgroup
// v1 the version 2 hierarchy of a hybrid host is taken away in it: crun refuses to run where it sees both.
Result<void> enter_mount_namespace(std::string_view cgroup_version, const std::filesystem::path& scratch);

// Mounts the overlay at merged() and makes what the runtime expects in it: working directory, /tmp, targets of files.
// Finds the user and writes bundle()/config.json, with `init` as process 1. Errors name the file or directory.
Result<void> build_bundle(const SandboxSpec& spec, const SandboxPaths& paths, const std::filesystem::path& init,
                          const std::vector<CgroupView>& cgroups);

}  // namespace dsec::launcher
