// SPDX-License-Identifier: Apache-2.0
// Reading the entries of a live directory without following anything, while others may change it.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "composer/content_sink.h"
#include "format/layer_tree.h"

namespace dsec::composer {

// Names in a directory in byte order, without "." and "..". `fd` is a descriptor of the directory; its position moves.
Result<std::vector<std::string>> list_directory(const Fd& fd);

// A name in a directory that is open as `directory`, looked at without following symlinks.
struct LiveEntry {
  format::Inode inode;
  struct stat attributes {};
  Fd fd;  // of regular files and directories, open for reading
};
// `io` when it vanished or became something else while we looked.
Result<LiveEntry> read_live_entry(const Fd& directory, const std::string& name);
// The same for an open directory itself.
Result<format::Inode> read_live_directory(const Fd& fd);

// Puts the content of a regular file into an open file of `sink`, holes as holes, and calls `seen` with the bytes of
// each read. `io` when the file is not what `attributes` says by the end: longer, shorter, or changed.
Result<void> copy_live_content(const Fd& fd, const struct stat& attributes, ContentSink& sink,
                               const std::function<void(std::uint64_t)>& seen);

}  // namespace dsec::composer
