// SPDX-License-Identifier: Apache-2.0
// Extended attributes that are not of the tree: where a file's bytes are.
#pragma once

#include <string>
#include <string_view>

#include "store/chunk_source.h"
#include "tree/namespace.h"

namespace dsec::fuse {

inline constexpr std::string_view kFactsPrefix = "user.lazyfs.";

// user.lazyfs.digest   of the content (regular files that are not empty)
// user.lazyfs.layer    digest of the layer; a directory's: its uppermost one
// user.lazyfs.env      an environment that shows it
// user.lazyfs.chunks   how many its content has
// user.lazyfs.cached   "memory=2 disk=3 store=1": where they are now
// No listing has them, so that no copy does. ENODATA (`io`) for other names and for what a node does not have.
Result<std::string> facts_xattr(const tree::Namespace& names, tree::NodeId node, std::string_view name,
                                const tree::Whereabouts& where, store::Deadline deadline);

}  // namespace dsec::fuse
