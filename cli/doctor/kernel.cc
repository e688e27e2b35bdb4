// SPDX-License-Identifier: Apache-2.0
// Kernel release, capabilities, limits and security modules.
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "cli/doctor/internal/host.h"

namespace dsec::doctor {

namespace {

constexpr KernelVersion kOldest{5, 15};
constexpr std::uint64_t kMinOpenFiles = 8192;
constexpr std::uint64_t kMinPids = 32768;
constexpr std::uint64_t kMinMounts = 10000;
constexpr std::uint64_t kMinInotify = 128;

bool has(std::uint64_t capabilities, int number) { return (capabilities >> number & 1) != 0; }

// A number in /proc/sys that should not be below `least`.
Finding sysctl_finding(const HostFiles& host, const std::string& name, std::uint64_t least,
                       const std::string& consequence) {
  std::string path = name;
  for (char& c : path) c = c == '.' ? '/' : c;
  const auto value = parse_number(host.read("proc/sys/" + path));
  if (!value) return fine(name, "not known on this kernel");
  if (*value >= least) return fine(name, std::to_string(*value));
  return degraded(name, std::to_string(*value), consequence, fmt::format("sysctl -w {}={}", name, least * 2));
}

}  // namespace

Findings examine_kernel(const HostFiles&, const std::string& release) {
  const auto version = parse_kernel_release(release);
  if (version && *version >= kOldest) return {fine("kernel", release)};
  return {missing("kernel", release, "lazyfs and sandboxes are made for Linux 5.15 and later",
                  "boot a newer kernel; 6.9 and later also survive a restart of lazyfsd without a failed read")};
}

Findings examine_privileges(const HostFiles& host) {
  const std::uint64_t capabilities = effective_capabilities(host.read("proc/self/status"));
  Findings findings;
  if (has(capabilities, CAP_SYS_ADMIN)) {
    findings.push_back(fine("privileges", "CAP_SYS_ADMIN"));
  } else {
    findings.push_back(missing("privileges", "no CAP_SYS_ADMIN",
                               "`dsec run` cannot start sandboxes; what needs a mount was not tried below",
                               "run as root, or give the container CAP_SYS_ADMIN"));
  }
  if (has(capabilities, CAP_SYS_RESOURCE)) {
    findings.push_back(fine("resource limits", "CAP_SYS_RESOURCE"));
  } else {
    findings.push_back(degraded("resource limits", "no CAP_SYS_RESOURCE",
                                "hard limits such as the number of open files cannot be raised for sandboxes",
                                "start from a shell or service that has it, with high enough limits"));
  }
  return findings;
}

Findings examine_limits(const HostFiles& host) {
  Findings findings;
  struct rlimit files {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const std::string found = fmt::format("{} (hard limit)", files.rlim_max);
  if (files.rlim_max >= kMinOpenFiles) {
    findings.push_back(fine("open files", found));
  } else {
    findings.push_back(degraded("open files", found, "a batch holds about 4 descriptors for each sandbox that runs",
                                fmt::format("ulimit -Hn {} (LimitNOFILE= of a service)", kMinOpenFiles * 2)));
  }
  findings.push_back(
      sysctl_finding(host, "kernel.pid_max", kMinPids, "the host runs out of process numbers with few sandboxes"));
  findings.push_back(
      sysctl_finding(host, "fs.mount-max", kMinMounts, "each sandbox has about 25 mounts in a namespace of its own"));
  findings.push_back(
      sysctl_finding(host, "fs.inotify.max_user_instances", kMinInotify,
                     "all sandboxes share them: programs that watch files fail with \"too many open files\""));
  return findings;
}

Findings examine_security(const HostFiles& host) {
  Findings findings;
  std::uint32_t action = SECCOMP_RET_ERRNO;
  if (::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) {
    findings.push_back(fine("seccomp", "system calls can be filtered"));
  } else {
    findings.push_back(missing("seccomp", fmt::format("not available ({})", fail_sys(errno, "seccomp").value().message),
                               "sandboxes cannot be confined to safe system calls",
                               "a kernel with CONFIG_SECCOMP_FILTER"));
  }
  const std::string modules = host.read("sys/kernel/security/lsm");
  const bool app_armor = starts_with(host.read("sys/module/apparmor/parameters/enabled"), "Y");
  const std::string enforce = host.read("sys/fs/selinux/enforce");
  const char* selinux = enforce.empty() ? "off" : starts_with(enforce, "1") ? "enforcing" : "permissive";
  findings.push_back(fine("security modules", fmt::format("AppArmor {}, SELinux {}{}{}", app_armor ? "on" : "off",
                                                          selinux, modules.empty() ? "" : "; all: ", modules)));
  return findings;
}

}  // namespace dsec::doctor
