// SPDX-License-Identifier: Apache-2.0
// The verbs of `dsec`: each does one thing and returns the exit code, or an Error that main() prints as "dsec: ..." and
// turns into 125.
#pragma once

#include "base/result.h"
#include "cli/args.h"

namespace dsec::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitProblems = 1;  // a check found something
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFailure = 125;

Result<int> compose_verb(const ComposeArgs& args);
Result<int> env_ls_verb(const CommonArgs& args);
Result<int> env_inspect_verb(const NameArgs& args);
Result<int> env_rm_verb(const NameArgs& args);
Result<int> layer_ls_verb(const CommonArgs& args);
Result<int> layer_inspect_verb(const NameArgs& args);
Result<int> store_check_verb(const CommonArgs& args);
Result<int> mount_verb(const MountArgs& args);
Result<int> umount_verb(const MountArgs& args);
Result<int> prefetch_verb(const PrefetchArgs& args);
Result<int> run_verb(const RunArgs& args);
Result<int> ps_verb(const CommonArgs& args);
Result<int> rm_verb(const RemoveArgs& args);
Result<int> fs_status_verb(const CommonArgs& args);
Result<int> fs_stats_verb(const EnvArgs& args);
Result<int> fs_inflight_verb(const CommonArgs& args);
Result<int> fs_evict_verb(const EvictArgs& args);
Result<int> fs_top_verb(const TopArgs& args);
Result<int> fs_trace_verb(const EnvArgs& args);
Result<int> fs_info_verb(const InfoArgs& args);
Result<int> fs_upgrade_verb(const CommonArgs& args);
Result<int> fs_stop_verb(const StopArgs& args);
Result<int> doctor_verb(const CommonArgs& args);

}  // namespace dsec::cli
