// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "launcher/internal/cgroup.h"
#include "launcher/internal/device_policy.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

// The controllers a sandbox gets a group of. cpuset and cpuacct limit nothing, but the JVM reads its limits only when
// it finds them.
constexpr std::array<std::string_view, 6> kControllers{"memory", "pids", "cpu", "cpuacct", "cpuset", "devices"};
constexpr std::uint64_t kPeriodUs = 100000;

struct Hierarchy {
  fs::path base;                         // below which dsec/<id> is
  std::string view;                      // its name below /sys/fs/cgroup, as the host calls it: "cpu,cpuacct"
  std::vector<std::string> controllers;  // of kControllers
  [[nodiscard]] bool has(std::string_view name) const {
    return std::find(controllers.begin(), controllers.end(), name) != controllers.end();
  }
};

class CgroupV1 : public CgroupDriver {
 public:
  explicit CgroupV1(std::vector<Hierarchy> hierarchies) : hierarchies_(std::move(hierarchies)) {}

  [[nodiscard]] std::string_view version() const override { return "v1"; }

  [[nodiscard]] std::vector<fs::path> directories(const std::string& id) const override {
    std::vector<fs::path> result;
    for (const Hierarchy& hierarchy : hierarchies_) result.push_back(hierarchy.base / kCgroupParent / id);
    return result;
  }

  Result<void> create(const std::string& id, const Limits& limits) override {
    TRY(check_controllers(limits));
    for (const Hierarchy& hierarchy : hierarchies_) {
      TRY(make_group(hierarchy.base, id));
      const fs::path group = hierarchy.base / kCgroupParent / id;
      if (hierarchy.has("cpuset")) TRY(inherit_cpuset(hierarchy.base, group));
      if (hierarchy.has("memory") && limits.memory_bytes) TRY(limit_memory(group, *limits.memory_bytes));
      if (hierarchy.has("pids")) {
        TRY(write_knob(group / "pids.max", std::to_string(limits.pids.value_or(kDefaultPids) + kOwnProcesses)));
      }
      if (hierarchy.has("cpu") && limits.cpus) TRY(limit_cpu(group, *limits.cpus));
      if (hierarchy.has("devices")) TRY(limit_devices(group));
    }
    return {};
  }

  Result<CgroupJoin> open_join(const std::string& id) override {
    CgroupJoin join;
    for (const fs::path& directory : directories(id)) {
      join.tasks.push_back(TRY(open_file(directory / "tasks", O_WRONLY)));
    }
    return join;
  }

  Result<std::uint64_t> oom_kills(const std::string& id) override {
    for (const Hierarchy& hierarchy : hierarchies_) {
      if (!hierarchy.has("memory")) continue;
      return read_counter(hierarchy.base / kCgroupParent / id / "memory.oom_control", "oom_kill");
    }
    return 0;
  }

  [[nodiscard]] std::vector<CgroupView> views(const std::string& id) const override {
    std::vector<CgroupView> result;
    for (const Hierarchy& hierarchy : hierarchies_) {
      result.push_back({hierarchy.base / kCgroupParent / id, hierarchy.view});
    }
    return result;
  }

 private:
  Result<void> check_controllers(const Limits& limits) const {
    const auto need = [&](std::string_view name) -> Result<void> {
      for (const Hierarchy& hierarchy : hierarchies_) {
        if (hierarchy.has(name)) return {};
      }
      return fail(ErrorCode::unsupported, "the {} controller of cgroup v1 is not mounted, so its limit cannot be set",
                  name);
    };
    if (limits.memory_bytes) TRY(need("memory"));
    if (limits.cpus) TRY(need("cpu"));
    if (limits.pids) TRY(need("pids"));
    return need("devices");
  }

  // A new cpuset is empty and takes no process until it has CPUs and memory nodes.
  static Result<void> inherit_cpuset(const fs::path& base, const fs::path& group) {
    for (const char* knob : {"cpuset.cpus", "cpuset.mems"}) {
      const std::string value = TRY(read_knob(base / knob));
      for (const fs::path& directory : {group.parent_path(), group}) {
        if (TRY(read_knob(directory / knob)).empty()) TRY(write_knob(directory / knob, value));
      }
    }
    return {};
  }

  static Result<void> limit_memory(const fs::path& group, std::uint64_t bytes) {
    TRY(write_knob(group / "memory.limit_in_bytes", std::to_string(bytes)));
    const fs::path with_swap = group / "memory.memsw.limit_in_bytes";  // absent without swap accounting
    if (::access(with_swap.c_str(), F_OK) == 0) TRY(write_knob(with_swap, std::to_string(bytes)));
    return {};
  }

  static Result<void> limit_cpu(const fs::path& group, double cpus) {
    TRY(write_knob(group / "cpu.cfs_period_us", std::to_string(kPeriodUs)));
    const auto quota = static_cast<std::uint64_t>(cpus * static_cast<double>(kPeriodUs));
    return write_knob(group / "cpu.cfs_quota_us", std::to_string(quota));
  }

  static Result<void> limit_devices(const fs::path& group) {
    TRY(write_knob(group / "devices.deny", "a"));
    for (const DeviceRule& rule : default_device_rules())
      TRY(write_knob(group / "devices.allow", v1_device_rule(rule)));
    return {};
  }

  std::vector<Hierarchy> hierarchies_;
};

// Our path in the hierarchy that has `controller`, from /proc/self/cgroup ("4:memory:/a/b").
std::string_view own_path(std::string_view own_groups, std::string_view controller) {
  for (const std::string_view line : split(own_groups, '\n')) {
    const std::vector<std::string_view> fields = split(line, ':');
    if (fields.size() < 3) continue;
    for (const std::string_view name : split(fields[1], ',')) {
      if (name == controller) return line.substr(fields[0].size() + fields[1].size() + 2);
    }
  }
  return "/";
}

}  // namespace

std::unique_ptr<CgroupDriver> make_cgroup_v1(std::span<const MountEntry> mounts, std::string_view own_groups) {
  std::vector<Hierarchy> hierarchies;
  for (const MountEntry& mount : mounts) {
    if (mount.type != "cgroup") continue;
    Hierarchy hierarchy;
    for (const std::string_view option : split(mount.options, ',')) {
      const bool ours = std::find(kControllers.begin(), kControllers.end(), option) != kControllers.end();
      const bool seen =
          std::any_of(hierarchies.begin(), hierarchies.end(), [&](const auto& h) { return h.has(option); });
      if (ours && !seen) hierarchy.controllers.emplace_back(option);
    }
    if (hierarchy.controllers.empty()) continue;
    hierarchy.base = base_group(mount, own_path(own_groups, hierarchy.controllers[0]));
    hierarchy.view = fs::path(mount.point).filename().native();
    hierarchies.push_back(std::move(hierarchy));
  }
  if (hierarchies.empty()) return nullptr;
  return std::make_unique<CgroupV1>(std::move(hierarchies));
}

}  // namespace dsec::launcher
