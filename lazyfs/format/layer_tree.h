// SPDX-License-Identifier: Apache-2.0
// A layer as a value: one directory tree with whiteouts. What the composer builds and what a layer image encodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace dsec::format {

// Limits of a layer (docs/format.md, section "Limits"). Input beyond them is refused, never cut.
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxSymlinkBytes = 4095;
inline constexpr std::size_t kMaxXattrValueBytes = 65535;  // Linux takes 65536; an EROFS xattr holds one less
inline constexpr std::size_t kMaxXattrBytes = 250000;      // of one inode, encoded
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 60;
inline constexpr std::size_t kMaxInodes = std::size_t{1} << 27;
inline constexpr std::size_t kMaxDepth = 2000;                // of directories: deeper trees are refused as hostile
inline constexpr std::uint32_t kNoOwner = ~std::uint32_t{0};  // (uid_t)-1, which the kernel takes for no owner at all
inline constexpr std::uint32_t kMaxMajor = (1u << 12) - 1;
inline constexpr std::uint32_t kMaxMinor = (1u << 20) - 1;

enum class FileType : std::uint8_t {
  regular,
  directory,
  symlink,
  char_device,
  block_device,
  fifo,
  socket,
  whiteout,  // hides what layers below have at this path; carries no attributes of its own
};

const char* to_string(FileType type);

struct Timestamp {
  std::int64_t sec = 0;
  std::uint32_t nsec = 0;  // < 1,000,000,000
  friend bool operator==(const Timestamp&, const Timestamp&) = default;
};

// Full name ("user.mime", "security.capability") -> value. Names and values as a person sees them in the tree: nothing
// is escaped here, escaping belongs to the image codec.
using Xattrs = std::map<std::string, std::string>;

struct Inode {
  FileType type = FileType::regular;
  std::uint16_t mode = 0;  // permission bits, suid, sgid, sticky: 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  Timestamp mtime;
  std::uint64_t size = 0;   // bytes of a regular file; 0 for all else
  Digest object;            // content of a regular file with size > 0; zero otherwise
  std::string target;       // of a symlink: 1 to kMaxSymlinkBytes bytes, no NUL
  std::uint32_t major = 0;  // devices
  std::uint32_t minor = 0;
  bool opaque = false;  // a directory that hides everything below it in lower layers
  Xattrs xattrs;
  friend bool operator==(const Inode&, const Inode&) = default;
};

using InodeId = std::uint32_t;

// The tree. Inode 0 is the root directory. Names map to inodes; several names of one non-directory are hard links of
// each other. Value type, not thread-safe. Every inode but the root has at least one name.
class LayerTree {
 public:
  using Children = std::map<std::string, InodeId, std::less<>>;

  LayerTree();  // an empty root: mode 0755, owner 0:0, mtime 0

  [[nodiscard]] static constexpr InodeId root() { return 0; }
  [[nodiscard]] const Inode& inode(InodeId id) const { return nodes_[id].inode; }
  Inode& inode(InodeId id) { return nodes_[id].inode; }
  [[nodiscard]] const Children& children(InodeId directory) const { return nodes_[directory].children; }
  [[nodiscard]] InodeId parent(InodeId directory) const { return nodes_[directory].parent; }  // of a directory only
  [[nodiscard]] std::size_t capacity() const { return nodes_.size(); }  // ids are below this; some may be unused

  // nullptr-like: kNone when there is no such name.
  static constexpr InodeId kNone = ~InodeId{0};
  [[nodiscard]] InodeId find(InodeId directory, std::string_view name) const;

  // Adds a new inode under a name; what had the name is removed with all below it.
  // `invalid` for an empty name, ".", "..", a slash or a NUL in it, or one longer than kMaxNameBytes, and for a
  // directory deeper than kMaxDepth or one inode more than kMaxInodes.
  Result<InodeId> add(InodeId directory, std::string_view name, Inode inode);
  // A further name of an existing inode that is no directory. Errors as add().
  Result<void> link(InodeId directory, std::string_view name, InodeId target);
  // Removes a name and, when it was the last, the inode with everything below it. No effect when absent.
  void remove(InodeId directory, std::string_view name);

  // Number of names of an inode; for a directory 2 plus its subdirectories.
  [[nodiscard]] std::uint32_t link_count(InodeId id) const;

 private:
  struct Node {
    Inode inode;
    Children children;
    InodeId parent = 0;       // directories
    std::uint32_t depth = 0;  // directories
    std::uint32_t names = 0;
  };
  Result<void> check_name(InodeId directory, std::string_view name) const;
  void drop(InodeId id);

  std::vector<Node> nodes_;
};

}  // namespace dsec::format
