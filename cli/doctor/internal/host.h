// SPDX-License-Identifier: Apache-2.0
// What examinations work with: the host's files, a place to try things, and findings in the making.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/internal/host_text.h"

namespace dsec::doctor {

// The /proc and /sys of a host, or of a directory that stands for one in tests.
class HostFiles {
 public:
  explicit HostFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}
  // The text of "proc/filesystems" and the like; empty when it cannot be read.
  [[nodiscard]] std::string read(const std::filesystem::path& path) const;
  [[nodiscard]] std::filesystem::path at(const std::filesystem::path& path) const { return root_ / path; }

 private:
  std::filesystem::path root_;
};

// A directory that is removed with all in it.
class ScratchDir {
 public:
  // In `parent` or, when that does not exist, in the nearest parent that does.
  static Result<ScratchDir> create(const std::filesystem::path& parent);
  ScratchDir(ScratchDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDir& operator=(ScratchDir&&) = delete;
  ~ScratchDir();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchDir(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// The nearest directory at or above `path` that exists.
std::filesystem::path nearest_existing(const std::filesystem::path& path);

// Runs `body` on a thread in a mount namespace that ends with it, private to it, so nothing that it mounts is ever seen
// by others. `permission` without CAP_SYS_ADMIN.
Result<void> in_private_mounts(const std::function<void()>& body);

using Findings = std::vector<Finding>;

inline Finding fine(std::string topic, std::string found) {
  return {Finding::Level::ok, std::move(topic), std::move(found), {}, {}};
}
inline Finding degraded(std::string topic, std::string found, std::string consequence, std::string remedy) {
  return {Finding::Level::degraded, std::move(topic), std::move(found), std::move(consequence), std::move(remedy)};
}
inline Finding missing(std::string topic, std::string found, std::string consequence, std::string remedy) {
  return {Finding::Level::missing, std::move(topic), std::move(found), std::move(consequence), std::move(remedy)};
}

// The examinations, one file each.
Findings examine_kernel(const HostFiles& host, const std::string& release);
Findings examine_privileges(const HostFiles& host);
Findings examine_limits(const HostFiles& host);
Findings examine_security(const HostFiles& host);
Findings examine_namespaces(const HostFiles& host);
Findings examine_cgroups(const HostFiles& host);
Findings examine_runtime(const std::filesystem::path& scratch);
Findings examine_fuse(const HostFiles& host);
Findings examine_file_systems(const HostFiles& host, const std::filesystem::path& scratch);
Findings examine_storage(const HostFiles& host, const DoctorOptions& options);
Findings examine_daemon(const DoctorOptions& options);
// What overlayfs does with an upper directory in `dir`; a finding of the state directory.
Finding examine_upper(const std::filesystem::path& dir);

}  // namespace dsec::doctor
