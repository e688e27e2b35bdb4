// SPDX-License-Identifier: Apache-2.0
// Trees bound to directories of the user's choice.
#pragma once

#include <filesystem>

#include "base/fd.h"
#include "base/result.h"

namespace dsec::cli {

// A record of a mount that `dsec mount` made, kept in the runtime directory so that `dsec umount` finds its daemon.
struct MountRecord {
  std::filesystem::path directory;  // absolute
  std::filesystem::path store;
  std::string env;
  [[nodiscard]] std::string owner() const { return "mount:" + directory.native(); }
};

// Binds `tree` to `directory`, read-only, without device files and set-user-ID: images have both, and this is the host.
// `exists` when something is mounted there already.
Result<void> bind_tree(const std::filesystem::path& tree, const std::filesystem::path& directory);
// The same for a detached mount, of which a copy is put there.
Result<void> bind_mount(const Fd& mount, const std::filesystem::path& directory);
Result<void> unbind(const std::filesystem::path& directory);

Result<void> save_record(const MountRecord& record);
// `not_found` when `dsec mount` did not mount there.
Result<MountRecord> load_record(const std::filesystem::path& directory);
void remove_record(const std::filesystem::path& directory);

}  // namespace dsec::cli
