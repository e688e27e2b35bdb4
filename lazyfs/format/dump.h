// SPDX-License-Identifier: Apache-2.0
// A layer as text: for people, for tests, and as an input. docs/format.md, section "Dump".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "format/layer_tree.h"

namespace dsec::format {

// One line per name, parents before children, names in byte order:
//
//   / directory mode=0755 uid=0 gid=0 mtime=0
//   /bin directory mode=0755 uid=0 gid=0 mtime=1700000000.000000001 opaque
//   /bin/sh regular mode=0755 uid=0 gid=0 mtime=0 size=5 object=<64 hex digits> xattr:user.mime=text/plain
//   /bin/rbash link to=/bin/sh
//   /etc/motd whiteout
//
// A second or later name of an inode is a `link` to the first. Words are separated by one space; in paths, targets and
// xattrs a space, an equals sign and all that escaped() of base/text.h escapes stand as \xNN. Equal trees give equal
// text. The tree may be one that no image can hold; its text then says so as plainly. Every line has its whole path: a
// deep tree makes a text that is many times larger than its image.
std::string dump_layer(const LayerTree& tree);

// The tree of a text. More lenient than dump_layer(): empty lines and lines that start with '#' are skipped; the
// attributes of a line come in any order; absent ones are mode 0644 (directories 0755), owner 0:0, mtime 0. The first
// line must be "/"; a parent must come before its children, a link after its target.
// `invalid` otherwise and for an attribute that the type does not have, starting with "line N: ". Whether a layer image
// can hold the tree is for write_layer() to say.
Result<LayerTree> parse_dump(std::string_view text);

}  // namespace dsec::format
