// SPDX-License-Identifier: Apache-2.0
#include "rootfs/object_root.h"

#include <sys/mount.h>

#include "base/mounts.h"

namespace dsec::rootfs {

Result<Fd> mount_layer(const std::filesystem::path& image) {
  MountContext context = TRY(MountContext::open("erofs"));
  TRY(context.set("source", image.native()));
  return TRY_IN(image.native(), context.create(MOUNT_ATTR_RDONLY));
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
