// SPDX-License-Identifier: Apache-2.0
// Overlayfs, EROFS and io_uring.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "base/atomic_file.h"
#include "base/text.h"
#include "cli/doctor/internal/host.h"
#include "format/erofs.h"
#include "rootfs/object_root.h"

namespace dsec::doctor {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRunConsequence = "`dsec run` cannot give sandboxes a writable root";

// Detached when it ends.
class Mounted {
 public:
  explicit Mounted(fs::path point) : point_(std::move(point)) {}
  ~Mounted() { ::umount2(point_.c_str(), MNT_DETACH); }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

 private:
  fs::path point_;
};

// `dir`/{lower,data,upper,work,mnt}, with something to hide in lower.
Result<void> make_layers(const fs::path& dir) {
  for (const char* name : {"lower/dir/below", "data", "upper", "work", "mnt"}) TRY(make_dirs(dir / name));
  return write_file_atomic(dir, dir / "lower/file", as_bytes("x"));
}

// Whether the overlay wrote what the kernel must find again: a whiteout and an opaque directory.
Result<void> try_hiding(const fs::path& dir) {
  std::error_code error;
  fs::remove(dir / "mnt/file", error);
  if (!error) fs::remove_all(dir / "mnt/dir", error);
  if (!error) fs::create_directory(dir / "mnt/dir", error);
  if (error) return fail_sys(error.value(), "delete through the overlay");
  struct stat st {};
  if (::lstat((dir / "upper/file").c_str(), &st) != 0 || !S_ISCHR(st.st_mode)) {
    return fail(ErrorCode::unsupported, "a deleted file left no whiteout");
  }
  char value = 0;
  if (::getxattr((dir / "upper/dir").c_str(), "trusted.overlay.opaque", &value, 1) != 1 || value != 'y') {
    return fail(ErrorCode::unsupported, "trusted xattrs are not kept");
  }
  return {};
}

Result<void> try_overlay(const fs::path& dir) {
  TRY(make_layers(dir));
  const std::string options = fmt::format(
      "lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work,index=off,metacopy=off,redirect_dir=off", dir.native());
  if (::mount("overlay", (dir / "mnt").c_str(), "overlay", MS_NODEV, options.c_str()) != 0)
    return fail_sys(errno, "mount overlay");
  const Mounted mounted(dir / "mnt");
  return try_hiding(dir);
}

// lowerdir+ (Linux 6.8) and datadir+: what layers as EROFS images with data from elsewhere need.
Result<void> try_data_only(const fs::path& dir) {
  TRY(make_layers(dir));
  const Fd context(::fsopen("overlay", FSOPEN_CLOEXEC));
  if (!context.valid()) return fail_sys(errno, "fsopen overlay");
  for (const auto& [key, name] :
       {std::pair{"lowerdir+", "lower"}, {"datadir+", "data"}, {"upperdir", "upper"}, {"workdir", "work"}}) {
    if (::fsconfig(context.get(), FSCONFIG_SET_STRING, key, (dir / name).c_str(), 0) != 0) {
      return fail_sys(errno, fmt::format("option {}", key));
    }
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
    return fail_sys(errno, "create the overlay");
  return {};
}

// A layer image that we wrote, mounted from a file.
Result<void> try_erofs(const fs::path& dir) {
  format::LayerTree tree;
  format::Inode empty;
  empty.mode = 0644;
  TRY(tree.add(format::LayerTree::root(), "file", empty));
  TRY(make_dirs(dir / "mnt"));
  TRY(write_file_atomic(dir, dir / "image", TRY(format::write_layer(tree))));
  if (::mount((dir / "image").c_str(), (dir / "mnt").c_str(), "erofs", MS_RDONLY, nullptr) != 0)
    return fail_sys(errno, "mount");
  const Mounted mounted(dir / "mnt");
  if (!fs::is_regular_file(dir / "mnt/file")) return fail(ErrorCode::unsupported, "the image does not show its file");
  return {};
}

// In a mount namespace of its own, in a directory of its own.
Result<void> try_in(const fs::path& scratch, const char* name, Result<void> (*attempt)(const fs::path&)) {
  const fs::path dir = scratch / name;
  TRY(make_dirs(dir));
  Result<void> outcome;
  TRY(in_private_mounts([&] { outcome = attempt(dir); }));
  return outcome;
}

// On a tmpfs, so that it is the kernel that is examined and not a disk.
Result<void> try_overlay_on_tmpfs(const fs::path& dir) {
  if (::mount("tmpfs", dir.c_str(), "tmpfs", MS_NODEV | MS_NOSUID, "size=1m,mode=700") != 0)
    return fail_sys(errno, "mount tmpfs");
  const Mounted mounted(dir);
  return try_overlay(dir);
}

Result<void> try_data_only_on_tmpfs(const fs::path& dir) {
  if (::mount("tmpfs", dir.c_str(), "tmpfs", MS_NODEV | MS_NOSUID, "size=1m,mode=700") != 0)
    return fail_sys(errno, "mount tmpfs");
  const Mounted mounted(dir);
  return try_data_only(dir);
}

bool not_tried(const Result<void>& outcome) { return !outcome && outcome.error().sys == EPERM; }

Finding overlay_finding(const HostFiles& host, const fs::path& scratch) {
  if (!lists_filesystem(host.read("proc/filesystems"), "overlay")) {
    return missing("overlayfs", "not in /proc/filesystems", kRunConsequence,
                   "modprobe overlay, or a kernel with CONFIG_OVERLAY_FS");
  }
  const auto outcome = try_in(scratch, "overlay", try_overlay_on_tmpfs);
  if (outcome) return fine("overlayfs", "mounted, with whiteouts and trusted xattrs");
  if (not_tried(outcome))
    return degraded("overlayfs", "in the kernel, not tried", "whether it works for us is not known", "run as root");
  return missing("overlayfs", outcome.error().message, kRunConsequence,
                 "see the message; a container must be privileged");
}

Finding data_only_finding(const fs::path& scratch) {
  const auto outcome = try_in(scratch, "data-only", try_data_only_on_tmpfs);
  if (outcome) return fine("overlayfs data-only", "lowerdir+ and datadir+ are taken");
  return degraded("overlayfs data-only", outcome.error().message,
                  "layer images cannot be stacked by the kernel itself; lazyfs shows the merged tree instead",
                  not_tried(outcome) ? "run as root to try it" : "Linux 6.8 or later");
}

Finding erofs_finding(const HostFiles& host, const fs::path& scratch) {
  constexpr const char* kConsequence = "layer images cannot be mounted by the kernel itself; lazyfs reads them instead";
  if (!lists_filesystem(host.read("proc/filesystems"), "erofs")) {
    return degraded("erofs", "not in /proc/filesystems", kConsequence,
                    "modprobe erofs, or a kernel with CONFIG_EROFS_FS");
  }
  const auto outcome = try_in(scratch, "erofs", try_erofs);
  if (outcome) return fine("erofs", "mounted a layer image from a file");
  if (not_tried(outcome)) return degraded("erofs", "in the kernel, not tried", kConsequence, "run as root to try it");
  const bool needs_device = outcome.error().sys == ENOTBLK;
  return degraded("erofs", needs_device ? "in the kernel, but not from a file" : outcome.error().message, kConsequence,
                  "Linux 6.12 or later with CONFIG_EROFS_FS_BACKED_BY_FILE, and a state directory on a local disk");
}

// Both together, as lazyfsd uses them.
Finding object_mode_finding(const fs::path& scratch) {
  const auto outcome = try_in(scratch, "object-mode", rootfs::try_object_mode);
  if (outcome) return fine("object mode", "an overlayfs of layer images with contents from elsewhere was read");
  return degraded("object mode", outcome.error().message,
                  "names and attributes come from lazyfsd instead of the kernel (--rootfs-mode tree)",
                  not_tried(outcome) ? "run as root to try it"
                                     : "Linux 6.15 or later with EROFS, and a state directory on a local disk");
}

Finding io_uring_finding(const HostFiles& host) {
  struct io_uring_params params {};
  const Fd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 4, &params)));
  if (ring.valid()) return fine("io_uring", "a ring can be made");
  const int error = errno;
  const auto disabled = parse_number(host.read("proc/sys/kernel/io_uring_disabled"));
  return degraded("io_uring", fail_sys(error, "io_uring_setup").value().message,
                  "reads of the store use one thread each",
                  disabled.value_or(0) != 0 ? "sysctl -w kernel.io_uring_disabled=0"
                                            : "a kernel and a seccomp policy that allow io_uring_setup");
}

}  // namespace

Finding examine_upper(const fs::path& dir) {
  const auto scratch = ScratchDir::create(dir);
  if (!scratch) {
    return missing("writable layers", scratch.error().message, kRunConsequence,
                   "name a directory that can be written with DSEC_STATE_DIR");
  }
  const auto outcome = try_in(scratch->path(), "upper", try_overlay);
  if (outcome) return fine("writable layers", "the state directory can hold them");
  if (not_tried(outcome))
    return degraded("writable layers", "not tried", "whether the state directory can hold them is not known",
                    "run as root");
  return missing("writable layers", fmt::format("the state directory cannot hold them: {}", outcome.error().message),
                 kRunConsequence,
                 "put DSEC_STATE_DIR on ext4, xfs or tmpfs; an overlay or a network file system cannot be the upper "
                 "layer of an overlay");
}

Findings examine_file_systems(const HostFiles& host, const fs::path& scratch) {
  return {overlay_finding(host, scratch), data_only_finding(scratch), erofs_finding(host, scratch),
          object_mode_finding(scratch), io_uring_finding(host)};
}

}  // namespace dsec::doctor
