// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "launcher/internal/cgroup.h"
#include "launcher/internal/device_policy.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPeriodUs = 100000;

// A group that has processes can hand no controller on ("No Internal Process Constraint" in cgroup-v2.rst), but the
// root can, which has no cgroup.type. The kernel lets such a group hand on cpu and pids, and then no process may join a
// group below it ("Threads", there).
bool can_hand_on(const fs::path& directory) {
  if (::access((directory / "cgroup.type").c_str(), F_OK) != 0) return true;
  const Result<std::string> processes = read_knob(directory / "cgroup.procs");
  return processes && processes->empty();
}

class CgroupV2 : public CgroupDriver {
 public:
  explicit CgroupV2(fs::path base) : base_(std::move(base)) {}

  [[nodiscard]] std::string_view version() const override { return "v2"; }

  [[nodiscard]] std::vector<fs::path> directories(const std::string& id) const override { return {group(id)}; }

  Result<void> create(const std::string& id, const Limits& limits) override {
    TRY(make_group(base_, id));
    TRY(enable_controllers(limits));
    if (limits.memory_bytes) TRY(limit_memory(group(id), *limits.memory_bytes));
    if (limits.cpus) {
      const auto quota = static_cast<std::uint64_t>(*limits.cpus * static_cast<double>(kPeriodUs));
      TRY(write_knob(group(id) / "cpu.max", fmt::format("{} {}", quota, kPeriodUs)));
    }
    const fs::path pids = group(id) / "pids.max";
    if (limits.pids || ::access(pids.c_str(), F_OK) == 0) {
      TRY(write_knob(pids, std::to_string(limits.pids.value_or(kDefaultPids) + kOwnProcesses)));
    }
    const Fd directory = TRY(open_file(group(id), O_RDONLY | O_DIRECTORY));
    return attach_device_policy(directory, default_device_rules());
  }

  Result<CgroupJoin> open_join(const std::string& id) override {
    CgroupJoin join;
    join.into = TRY(open_file(group(id), O_RDONLY | O_DIRECTORY));
    return join;
  }

  Result<std::uint64_t> oom_kills(const std::string& id) override {
    const fs::path events = group(id) / "memory.events";
    if (::access(events.c_str(), F_OK) != 0) return 0;  // no memory controller, so no memory limit
    return read_counter(events, "oom_kill");
  }

  [[nodiscard]] std::vector<CgroupView> views(const std::string& id) const override { return {{group(id), ""}}; }

 private:
  [[nodiscard]] fs::path group(const std::string& id) const { return base_ / kCgroupParent / id; }

  // A controller must be enabled in every directory above the group; those that no limit needs are best effort.
  Result<void> enable_controllers(const Limits& limits) {
    const auto enable = [&](std::string_view name, bool needed) -> Result<void> {
      for (const fs::path& directory : {base_, base_ / kCgroupParent}) {
        const std::string available = TRY(read_knob(directory / "cgroup.controllers"));
        const std::vector<std::string_view> names = split(available, ' ');
        const bool there = std::find(names.begin(), names.end(), name) != names.end();
        const bool able = can_hand_on(directory);
        Result<void> enabled;
        if (there && able) enabled = write_knob(directory / "cgroup.subtree_control", fmt::format("+{}", name));
        if (!needed) continue;
        if (!there) {
          return fail(ErrorCode::unsupported, "the {} controller is not available in {}, so its limit cannot be set",
                      name, directory.native());
        }
        if (!able) {
          return fail(ErrorCode::unsupported,
                      "{} has processes, so the kernel sets no {} limit below it: move them to a group of their own",
                      directory.native(), name);
        }
        TRY_IN(fmt::format("enable the {} controller", name), enabled);
      }
      return {};
    };
    TRY(enable("memory", limits.memory_bytes.has_value()));
    TRY(enable("cpu", limits.cpus.has_value()));
    return enable("pids", limits.pids.has_value());
  }

  static Result<void> limit_memory(const fs::path& group, std::uint64_t bytes) {
    TRY(write_knob(group / "memory.max", std::to_string(bytes)));
    TRY(write_knob(group / "memory.oom.group", "1"));
    const fs::path swap = group / "memory.swap.max";  // absent without swap accounting
    if (::access(swap.c_str(), F_OK) == 0) TRY(write_knob(swap, "0"));
    return {};
  }

  fs::path base_;
};

}  // namespace

std::unique_ptr<CgroupDriver> make_cgroup_v2(std::span<const MountEntry> mounts, std::string_view own_groups) {
  for (const MountEntry& mount : mounts) {
    if (mount.type != "cgroup2") continue;
    std::string_view own = "/";
    for (const std::string_view line : split(own_groups, '\n')) {
      if (starts_with(line, "0::")) own = line.substr(3);
    }
    return std::make_unique<CgroupV2>(base_group(mount, own));
  }
  return nullptr;
}

}  // namespace dsec::launcher
