// SPDX-License-Identifier: Apache-2.0
// What a single inode of a source may be.
#pragma once

#include "base/result.h"
#include "format/layer_tree.h"

namespace dsec::composer {

// `invalid` when an inode breaks a limit or rule of format::LayerTree: a symlink's target, device numbers, xattrs,
// size, mode, time. The message says which; the caller adds whose inode it is.
Result<void> check_inode(const format::Inode& inode);

}  // namespace dsec::composer
