// SPDX-License-Identifier: Apache-2.0
// What sandboxes are made of: namespaces, cgroups and the runtime.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/atomic_file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/doctor/internal/host.h"

namespace dsec::doctor {

namespace fs = std::filesystem;

namespace {

struct NamespaceKind {
  const char* name;
  int flag;
};
constexpr std::array<NamespaceKind, 6> kNamespaces{{{"mnt", CLONE_NEWNS},
                                                    {"pid", CLONE_NEWPID},
                                                    {"net", CLONE_NEWNET},
                                                    {"ipc", CLONE_NEWIPC},
                                                    {"uts", CLONE_NEWUTS},
                                                    {"cgroup", CLONE_NEWCGROUP}}};

// On a thread, which takes the namespaces with it when it ends.
int try_namespaces(int flags) {
  int error = 0;
  std::thread([&] { error = ::unshare(flags) == 0 ? 0 : errno; }).join();
  return error;
}

// Makes a group below `base` and removes it again.
Result<void> try_group(const fs::path& base) {
  const fs::path group = base / fmt::format("dsec-doctor-{}", ::getpid());
  if (::mkdir(group.c_str(), 0755) != 0) return fail_sys(errno, fmt::format("mkdir {}", group.native()));
  if (::rmdir(group.c_str()) != 0) return fail_sys(errno, fmt::format("rmdir {}", group.native()));
  return {};
}

// As the launcher does it: below the root of the hierarchy, else below our own group.
fs::path group_base(const fs::path& mount, const std::string& own) {
  return ::access(mount.c_str(), W_OK) == 0 ? mount : mount / fs::path(own).relative_path();
}

// The controllers of which a group could be made; what could not goes to `trouble`.
std::vector<std::string> usable_controllers(const HostFiles& host, const CgroupLayout& layout, std::string& trouble) {
  std::vector<std::string> usable;
  const std::string own = host.read("proc/self/cgroup");
  const auto try_in = [&](const fs::path& mount, const std::string& controller) {
    const auto made = try_group(group_base(mount, own_group(own, controller)));
    if (!made) trouble = made.error().message;
    return made.has_value();
  };
  if (layout.kind == CgroupLayout::Kind::v2) {
    if (!try_in(layout.unified, "")) return usable;
    const std::string offered = host.read(fs::path(layout.unified).relative_path() / "cgroup.controllers");
    for (const std::string_view word : split(std::string_view(offered).substr(0, offered.find('\n')), ' ')) {
      if (word == "cpu" || word == "memory" || word == "pids") usable.emplace_back(word);
    }
    usable.emplace_back("devices");  // version 2 has no such controller: a BPF program does it
    return usable;
  }
  for (const auto& [controller, mount] : layout.v1) {
    if (try_in(mount, controller)) usable.push_back(controller);
  }
  return usable;
}

Json container_config() {
  Json namespaces = Json::array();
  for (const char* type : {"mount", "pid", "ipc", "uts"}) namespaces.push_back({{"type", type}});
  return {
      {"ociVersion", "1.0.0"},
      {"root", {{"path", "rootfs"}, {"readonly", true}}},
      {"process", {{"args", {"/bin/true"}}, {"cwd", "/"}, {"user", {{"uid", 0}, {"gid", 0}}}, {"env", {"PATH=/bin"}}}},
      {"mounts", {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}}}},
      {"linux", {{"namespaces", std::move(namespaces)}}}};
}

// Runs the host's own /bin/true in a container on a read-only view of the host's root, as the monitor runs crun: with
// cgroups left to us, and without the version 2 hierarchy of a hybrid host in sight, which crun refuses.
Result<void> try_container(const fs::path& scratch) {
  const fs::path bundle = scratch / "bundle";
  TRY(make_dirs(bundle / "rootfs"));
  TRY(write_file_atomic(scratch, bundle / "config.json", as_bytes(dump_json(container_config()))));
  ::umount2("/sys/fs/cgroup/unified", MNT_DETACH);
  if (::mount("/", (bundle / "rootfs").c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
    return fail_sys(errno, "bind /");
  const fs::path log = scratch / "crun.log";
  const Fd null = TRY(open_file("/dev/null", O_RDWR));
  SpawnOptions options;
  options.argv = {"crun",   "--cgroup-manager=disabled",
                  "--log",  log,
                  "--root", scratch / "crun",
                  "run",    "--bundle",
                  bundle,   fmt::format("dsec-doctor-{}", ::getpid())};
  options.fds = {{null.get(), 0}, {null.get(), 1}, {null.get(), 2}};
  Result<void> outcome;
  {
    ChildProcess child = TRY(ChildProcess::spawn(options));
    const auto status = TRY(child.wait_for(std::chrono::seconds(5)));
    if (!status)
      outcome = fail(ErrorCode::timeout, "crun did not come back in 5 s");
    else if (!status->success())
      outcome = fail(ErrorCode::io, "crun ended with status {}", status->code);
  }
  ::umount2((bundle / "rootfs").c_str(), MNT_DETACH);
  if (outcome) return {};
  const auto text = read_file(log, 64 << 10);
  return text && !text->empty() ? fail(ErrorCode::io, "{}", escaped(as_text(*text))) : outcome;
}

}  // namespace

Findings examine_namespaces(const HostFiles& host) {
  std::vector<std::string> closed;
  int flags = 0;
  for (const NamespaceKind& kind : kNamespaces) {
    flags |= kind.flag;
    const auto most = parse_number(host.read(fmt::format("proc/sys/user/max_{}_namespaces", kind.name)));
    if (most && *most == 0) closed.emplace_back(fmt::format("user.max_{}_namespaces", kind.name));
  }
  if (!closed.empty()) {
    return {missing("namespaces", fmt::format("switched off: {} = 0", fmt::join(closed, ", ")),
                    "sandboxes cannot be isolated", fmt::format("sysctl -w {}=30000", closed.front()))};
  }
  const int error = try_namespaces(flags);
  if (error == 0) return {fine("namespaces", "mnt, pid, net, ipc, uts and cgroup can be made")};
  return {missing("namespaces", fail_sys(error, "unshare").value().message, "sandboxes cannot be isolated",
                  error == EPERM ? "run as root" : "a kernel with CONFIG_NAMESPACES and all kinds of it")};
}

Findings examine_cgroups(const HostFiles& host) {
  const CgroupLayout layout = cgroup_layout(parse_mountinfo(host.read("proc/self/mountinfo")));
  if (layout.kind == CgroupLayout::Kind::none) {
    return {missing("cgroups", "no hierarchy is mounted", "sandboxes have no limits and cannot be cleaned up",
                    "mount -t cgroup2 none /sys/fs/cgroup")};
  }
  std::string trouble;
  const std::vector<std::string> usable = usable_controllers(host, layout, trouble);
  const std::string found = fmt::format("{}: {}", to_string(layout.kind),
                                        usable.empty() ? trouble : fmt::format("{}", fmt::join(usable, ", ")));
  if (usable.empty()) {
    return {missing("cgroups", found, "sandboxes cannot be limited, accounted or cleaned up",
                    "run as root with a writable /sys/fs/cgroup (a container needs --privileged or --cgroupns=host)")};
  }
  std::vector<std::string> lacking;
  for (const char* controller : {"cpu", "memory", "pids", "devices"}) {
    if (std::find(usable.begin(), usable.end(), controller) == usable.end()) lacking.emplace_back(controller);
  }
  if (lacking.empty()) return {fine("cgroups", found)};
  return {
      degraded("cgroups", found,
               fmt::format("no limits by {}: `dsec run` refuses the options that need them", fmt::join(lacking, ", ")),
               layout.kind == CgroupLayout::Kind::v2 ? "enable them in the cgroup.subtree_control of the parent group"
                                                     : "mount the hierarchies of these controllers, writable")};
}

Findings examine_runtime(const fs::path& scratch) {
  const auto text = run_program({"crun", "--version"});
  if (!text) {
    return {missing("crun", "not found, or it does not run", "`dsec run` cannot start sandboxes",
                    "install crun 1.8 or later (Debian: apt-get install crun)")};
  }
  const std::string version = parse_crun_version(*text);
  Result<void> ran = fail(ErrorCode::internal, "not tried");
  const auto entered = in_private_mounts([&] { ran = try_container(scratch); });
  if (!entered)
    return {
        degraded("crun", version + ", not tried", "whether it can start a container here is not known", "run as root")};
  if (ran) return {fine("crun", version + ", ran a container")};
  return {missing("crun", fmt::format("{}, but it could not run a container: {}", version, ran.error().message),
                  "`dsec run` cannot start sandboxes",
                  "see the message; inside another container that one must be privileged")};
}

}  // namespace dsec::doctor
