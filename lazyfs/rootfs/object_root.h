// SPDX-License-Identifier: Apache-2.0
// Object mode: an environment as a file system of the kernel's own, an overlayfs of its layers' EROFS images whose file
// contents lie in a directory of objects (docs/decisions/0010-object-mode.md).
#pragma once

#include <filesystem>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dsec::rootfs {

// Layers and data of one overlayfs: OVL_MAX_STACK in fs/overlayfs/super.c.
inline constexpr std::size_t kMaxLowers = 499;

// Mounts a layer image straight from its file (Linux 6.12), read-only and detached. The file must not change.
// `unsupported` when this kernel does not do that, or not on the file's file system: tmpfs and overlayfs are none.
Result<Fd> mount_layer(const std::filesystem::path& image);

// The tree of `layers` (mounts of layer images, top first, no two of one mount), read-only and detached. Contents are
// looked up in `objects`, a directory with ab/<rest of digest>, when they are first opened. `unsupported` for more than
// kMaxLowers.
Result<Fd> mount_object_root(const std::vector<const Fd*>& layers, const Fd& objects);

// Makes such a tree of two tiny layers in a temporary directory below `scratch` and reads a file of it. An error says
// what this kernel does not do.
Result<void> try_object_mode(const std::filesystem::path& scratch);

}  // namespace dsec::rootfs
