// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/rootfs.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/mount_table.h"
#include "base/paths.h"
#include "launcher/internal/detach_mounts.h"
#include "launcher/internal/image_user.h"
#include "launcher/internal/oci_config.h"
#include "launcher/internal/overlay.h"
#include "launcher/internal/root_path.h"
#include "launcher/internal/seccomp_filter.h"
#include "launcher/internal/state.h"
#include "launcher/monitor/runtime.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxHostFile = 1u << 20;

Result<void> make_dir(const fs::path& path, mode_t mode = 0755) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return fail_sys(errno, fmt::format("create directory {}", path.native()));
  }
  return {};
}

// The root directory of an overlay shows the attributes of the upper layer's: make them those of the topmost lower one.
Result<void> make_upper(const SandboxSpec& spec, const SandboxPaths& paths) {
  TRY(make_dirs(paths.writable.parent_path()));
  TRY(make_dir(paths.writable, 0700));
  TRY(make_dir(paths.upper()));
  TRY(make_dir(paths.work(), 0700));
  struct stat st {};
  if (::stat(spec.lowers.back().c_str(), &st) != 0) {
    return fail_sys(errno, fmt::format("look at the lower directory {}", spec.lowers.back().native()));
  }
  if (::chown(paths.upper().c_str(), st.st_uid, st.st_gid) != 0 ||
      ::chmod(paths.upper().c_str(), st.st_mode & 07777) != 0) {
    return fail_sys(errno, fmt::format("set the owner and mode of {}", paths.upper().native()));
  }
  return {};
}

std::string host_file(const char* path) {
  const Result<Bytes> bytes = read_file(path, kMaxHostFile);
  return bytes ? std::string(as_text(*bytes)) : std::string();
}

// hosts, hostname and resolv.conf of the sandbox, to be mounted on those of its root.
Result<void> write_etc(const SandboxSpec& spec, const fs::path& etc) {
  const std::string hostname = spec.hostname.empty() ? spec.id : spec.hostname;
  std::string hosts =
      fmt::format("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t{}\n", hostname);
  std::string resolver;
  if (spec.network == Network::host) {
    hosts = host_file("/etc/hosts");
    resolver = host_file("/etc/resolv.conf");
  }
  TRY(make_dir(etc));
  TRY(write_small_file(etc / "hosts", hosts));
  TRY(write_small_file(etc / "hostname", hostname + "\n"));
  return write_small_file(etc / "resolv.conf", resolver);
}

// Directories for cgroup v1 hierarchies to be mounted on; none with version 2.
Result<void> make_cgroup_top(const fs::path& top, const std::vector<CgroupView>& views) {
  TRY(make_dir(top));
  for (const CgroupView& view : views) {
    if (!view.name.empty()) TRY(make_dir(top / view.name));
  }
  return {};
}

Result<void> prepare_root(const SandboxSpec& spec, const Fd& root) {
  if (!spec.workdir.empty()) TRY_IN("make the working directory", make_dirs_in_root(root, spec.workdir, 0755));
  const Result<Fd> tmp = open_in_root(root, "/tmp", O_PATH);
  if (!tmp && tmp.error().code == ErrorCode::not_found) TRY(make_dirs_in_root(root, "/tmp", 01777));
  for (const char* file : {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}) TRY(make_file_in_root(root, file));
  return {};
}

std::uint64_t max_open_files() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
}

}  // namespace

Result<void> enter_mount_namespace(std::string_view cgroup_version, const fs::path& scratch) {
  TRY(make_dirs(scratch));
  if (::unshare(CLONE_NEWNS) != 0) return fail_sys(errno, "make a mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    return fail_sys(errno, "make the mounts private");
  if (::mount("dsec", scratch.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700,size=64m") != 0) {
    return fail_sys(errno, fmt::format("mount a tmpfs on {}", scratch.native()));
  }
  if (cgroup_version != "v1") return {};
  for (const MountEntry& mount : TRY(read_mounts())) {
    if (mount.type != "cgroup2") continue;
    if (::umount2(mount.point.c_str(), MNT_DETACH) != 0) {
      return fail_sys(errno, fmt::format("hide {} from the runtime", mount.point));
    }
  }
  return {};
}

Result<void> build_bundle(const SandboxSpec& spec, const SandboxPaths& paths, const fs::path& init,
                          const std::vector<CgroupView>& cgroups) {
  TRY(make_upper(spec, paths));
  TRY(make_dir(paths.merged()));
  TRY(make_dir(paths.bundle(), 0700));
  OciInputs inputs;
  inputs.etc = paths.scratch / "etc";
  TRY(write_etc(spec, inputs.etc));
  inputs.cgroup_top = paths.scratch / "cgroup";
  TRY(make_cgroup_top(inputs.cgroup_top, cgroups));

  const bool keep = spec.keep == SandboxSpec::Keep::yes;
  TRY(mount_overlay({spec.lowers, paths.upper(), paths.work(), paths.merged(),
                     keep ? OverlayLayout::Durable::yes : OverlayLayout::Durable::no}));
  const Fd root = TRY(open_file(paths.merged(), O_PATH | O_DIRECTORY));
  TRY(prepare_root(spec, root));
  inputs.user = TRY(resolve_user_in_root(root, spec.user));
  inputs.root = paths.merged();
  inputs.init = init;
  inputs.cgroup_views = cgroups;
  inputs.seccomp_base64 = TRY(cached_seccomp_base64(runtime_dir()));
  inputs.max_open_files = max_open_files();
  struct winsize size {};
  if (spec.tty == SandboxSpec::Tty::yes && ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) {
    inputs.rows = size.ws_row;
    inputs.columns = size.ws_col;
  }
  return write_small_file(paths.bundle() / "config.json", TRY(oci_config(spec, inputs)));
}

}  // namespace dsec::launcher
