// SPDX-License-Identifier: Apache-2.0
// Removing trees that hostile code has written.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace dsec::launcher {

// Removes everything below the open directory `dir`, except the entry `keep` at its top. Never follows a symbolic link
// and never enters another file system (`io` names the entry: unmount it first). Needs two descriptors however deep
// the tree is. What disappears meanwhile is no error. The tree must no longer be written to by anyone hostile.
Result<void> remove_contents(const Fd& dir, std::string_view keep = {});

// The same for the directory `name` below `parent`, and then the directory itself. An absent one is no error.
Result<void> remove_tree(const Fd& parent, const std::string& name);

}  // namespace dsec::launcher
