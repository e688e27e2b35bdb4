// SPDX-License-Identifier: Apache-2.0
#include "rootfs/object_root.h"

#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include <cerrno>

#include "base/mounts.h"

namespace dsec::rootfs {

namespace {

// What the kernel means that wants a block device: it takes a file whose file system reads it page by page
// (erofs_fc_get_tree() in fs/erofs/super.c).
tl::unexpected<Error> needs_other_directory(const std::filesystem::path& dir) {
  struct statfs kind {};
  const bool known = ::statfs(dir.c_str(), &kind) == 0;
  const bool is_overlay = known && kind.f_type == OVERLAYFS_SUPER_MAGIC;
  if (is_overlay || (known && (kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC))) {
    return fail(ErrorCode::unsupported,
                "{} is on {}, from whose files the kernel mounts no layers: put cache_dir on ext4 or xfs", dir.native(),
                is_overlay ? "overlayfs" : "tmpfs");
  }
  return fail(ErrorCode::unsupported,
              "this kernel does not mount layers from files in {}: it takes Linux 6.12 with "
              "CONFIG_EROFS_FS_BACKED_BY_FILE, and cache_dir on a file system such as ext4 or xfs",
              dir.native());
}

}  // namespace

Result<Fd> mount_layer(const std::filesystem::path& image) {
  MountContext context = TRY(MountContext::open("erofs"));
  TRY(context.set("source", image.native()));
  auto mount = context.create(MOUNT_ATTR_RDONLY);
  if (!mount && mount.error().sys == ENOTBLK) return needs_other_directory(image.parent_path());
  return TRY_IN(image.native(), std::move(mount));
}

Result<Fd> mount_object_root(const std::vector<const Fd*>& layers, const Fd& objects) {
  if (layers.size() > kMaxLowers) {
    return fail(ErrorCode::unsupported, "{} layers are more than the {} of an overlayfs", layers.size(), kMaxLowers);
  }
  MountContext context = TRY(MountContext::open("overlay"));
  TRY(context.set("source", "dsec"));
  for (const Fd* layer : layers) TRY(context.set_path("lowerdir+", *layer));
  TRY(context.set_path("datadir+", objects));
  // Without an upper layer it makes nothing: it only lets files of all layers, not just of the lowest, have their
  // content elsewhere.
  TRY(context.set("metacopy", "on"));
  // One device number for the whole tree. Layers have 32-bit inode numbers, which leaves bits to tell them apart.
  TRY(context.set("xino", "on"));
  return context.create(MOUNT_ATTR_RDONLY);
}

}  // namespace dsec::rootfs
