// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/oci_config.h"

#include <algorithm>

#include "base/json.h"
#include "launcher/internal/seccomp_filter.h"
#include "launcher/internal/seccomp_table.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

// Docker's defaults (github.com/moby/moby, daemon/pkg/oci).
constexpr const char* kCapabilities[] = {"CAP_CHOWN",   "CAP_DAC_OVERRIDE", "CAP_FSETID",           "CAP_FOWNER",
                                         "CAP_MKNOD",   "CAP_NET_RAW",      "CAP_SETGID",           "CAP_SETUID",
                                         "CAP_SETFCAP", "CAP_SETPCAP",      "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
                                         "CAP_KILL",    "CAP_AUDIT_WRITE"};
constexpr const char* kMaskedPaths[] = {"/proc/asound",     "/proc/acpi",        "/proc/interrupts",
                                        "/proc/kcore",      "/proc/keys",        "/proc/latency_stats",
                                        "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
                                        "/proc/scsi",       "/sys/firmware",     "/sys/devices/virtual/powercap"};
constexpr const char* kReadOnlyPaths[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};
constexpr std::uint64_t kMaxOpenFiles = 1048576;

constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

Json texts(std::span<const char* const> names) {
  Json list = Json::array();
  for (const char* name : names) list.push_back(name);
  return list;
}

Json mount(const char* target, const char* type, const char* source, std::vector<std::string> options) {
  return {{"destination", target}, {"type", type}, {"source", source}, {"options", std::move(options)}};
}

Json bind_mount(const std::string& target, const fs::path& source, std::vector<std::string> options) {
  return {{"destination", target}, {"type", "bind"}, {"source", source.native()}, {"options", std::move(options)}};
}

Json capabilities(const ImageUser& user) {
  const Json all = texts(kCapabilities);
  const Json held = user.uid == 0 ? all : Json::array();
  return {{"bounding", all},
          {"permitted", held},
          {"effective", held},
          {"inheritable", Json::array()},
          {"ambient", Json::array()}};
}

Json process(const SandboxSpec& spec, const OciInputs& inputs) {
  Json args = {kInitInside, spec.tty == SandboxSpec::Tty::yes ? "tty" : "pipe"};
  for (const std::string& arg : spec.argv) args.push_back(arg);
  const std::uint64_t files = std::min(inputs.max_open_files, kMaxOpenFiles);
  const Json limits = {{{"type", "RLIMIT_NOFILE"}, {"soft", files}, {"hard", files}}};
  return {{"terminal", spec.tty == SandboxSpec::Tty::yes},
          {"consoleSize", {{"height", inputs.rows}, {"width", inputs.columns}}},
          {"user", {{"uid", inputs.user.uid}, {"gid", inputs.user.gid}, {"additionalGids", inputs.user.groups}}},
          {"args", args},
          {"env", command_environment(spec, inputs.user)},
          {"cwd", spec.workdir.empty() ? "/" : spec.workdir},
          {"capabilities", capabilities(inputs.user)},
          {"rlimits", limits},
          {"noNewPrivileges", true}};
}

// Version 2 has one hierarchy and the runtime mounts it, seen from the cgroup namespace. In version 1 the runtime would
// show the host's groups of every hierarchy that we did not join, so only our own are bound.
void add_cgroup_mounts(const OciInputs& inputs, Json& mounts) {
  constexpr const char* kTop = "/sys/fs/cgroup";
  const auto& views = inputs.cgroup_views;
  if (views.size() == 1 && views[0].name.empty()) {
    mounts.push_back(mount(kTop, "cgroup", "cgroup", {"nosuid", "noexec", "nodev", "relatime", "ro"}));
    return;
  }
  const std::vector<std::string> options{"bind", "rprivate", "nosuid", "noexec", "nodev", "ro"};
  mounts.push_back(bind_mount(kTop, inputs.cgroup_top, options));
  for (const CgroupView& view : views)
    mounts.push_back(bind_mount(fmt::format("{}/{}", kTop, view.name), view.directory, options));
}

Json mounts(const SandboxSpec& spec, const OciInputs& inputs) {
  const std::string shm_size = fmt::format("size={}", spec.shm_bytes);
  Json list = {
      mount("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}),
      mount("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}),
      mount("/dev/pts", "devpts", "devpts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}),
      mount("/dev/shm", "tmpfs", "shm", {"nosuid", "noexec", "nodev", "mode=1777", shm_size}),
      mount("/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}),
      mount("/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", "ro"}),
  };
  add_cgroup_mounts(inputs, list);
  list.push_back(bind_mount(kInitInside, inputs.init, {"bind", "rprivate", "nosuid", "nodev", "ro"}));
  for (const char* name : {"hosts", "hostname", "resolv.conf"}) {
    list.push_back(bind_mount(fmt::format("/etc/{}", name), inputs.etc / name, {"bind", "rprivate"}));
  }
  for (const Volume& volume : spec.volumes) {
    std::vector<std::string> options{"rbind", "rprivate"};
    std::error_code error;
    // "rro" covers the mounts below as well; crun takes it for directories only, and a file has none below.
    if (volume.access == Volume::Access::read_only) options.emplace_back("ro");
    if (volume.access == Volume::Access::read_only && fs::is_directory(volume.source, error))
      options.emplace_back("rro");
    list.push_back(bind_mount(volume.target, volume.source, std::move(options)));
  }
  return list;
}

const char* comparison(ArgumentRule::Compare compare) {
  switch (compare) {
    case ArgumentRule::Compare::equal: return "SCMP_CMP_EQ";
    case ArgumentRule::Compare::less: return "SCMP_CMP_LT";
    case ArgumentRule::Compare::greater: return "SCMP_CMP_GT";
    case ArgumentRule::Compare::masked_equal: return "SCMP_CMP_MASKED_EQ";
  }
  return "SCMP_CMP_EQ";
}

// For runtimes that do not take the compiled filter; those that do never look at it.
Json seccomp_section() {
  Json rules = Json::array();
  rules.push_back({{"names", texts(allowed_calls())}, {"action", "SCMP_ACT_ALLOW"}});
  for (const NumberedCall& call : allowed_new_calls()) rules[0]["names"].push_back(call.name);
  for (const ArgumentRule& rule : argument_rules()) {
    const Json argument = {
        {"index", rule.argument}, {"op", comparison(rule.compare)}, {"value", rule.value}, {"valueTwo", rule.masked}};
    rules.push_back(
        {{"names", Json::array({rule.call})}, {"action", "SCMP_ACT_ALLOW"}, {"args", Json::array({argument})}});
  }
  rules.push_back({{"names", texts(absent_calls())}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", 38}});
  return {{"defaultAction", "SCMP_ACT_ERRNO"},
          {"defaultErrnoRet", 1},
          {"architectures", seccomp_architectures()},
          {"syscalls", rules}};
}

Json linux_section(const SandboxSpec& spec) {
  Json namespaces = Json::array();
  for (const char* type : {"pid", "mount", "ipc", "uts", "cgroup"}) namespaces.push_back({{"type", type}});
  if (spec.network == Network::none) namespaces.push_back({{"type", "network"}});
  return {{"namespaces", namespaces},
          {"maskedPaths", texts(kMaskedPaths)},
          {"readonlyPaths", texts(kReadOnlyPaths)},
          {"rootfsPropagation", "private"},
          {"seccomp", seccomp_section()}};
}

}  // namespace

std::vector<std::string> command_environment(const SandboxSpec& spec, const ImageUser& user) {
  std::vector<std::pair<std::string, std::string>> all{
      {"PATH", kPath}, {"HOSTNAME", spec.hostname.empty() ? spec.id : spec.hostname}, {"HOME", user.home}};
  if (spec.tty == SandboxSpec::Tty::yes) all.emplace_back("TERM", "xterm");
  for (const auto& wanted : spec.env) {
    const auto same =
        std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.first == wanted.first; });
    if (same != all.end())
      *same = wanted;
    else
      all.push_back(wanted);
  }
  std::vector<std::string> environment;
  for (const auto& [name, value] : all) environment.push_back(name + "=" + value);
  return environment;
}

Result<std::string> oci_config(const SandboxSpec& spec, const OciInputs& inputs) {
  const Json document = {{"ociVersion", "1.0.2"},
                         {"process", process(spec, inputs)},
                         {"root", {{"path", inputs.root.native()}, {"readonly", false}}},
                         {"hostname", spec.hostname.empty() ? spec.id : spec.hostname},
                         {"mounts", mounts(spec, inputs)},
                         {"linux", linux_section(spec)},
                         {"annotations", {{"run.oci.seccomp_bpf_data", inputs.seccomp_base64}}}};
  return canonical_json(document);
}

}  // namespace dsec::launcher
