// SPDX-License-Identifier: Apache-2.0
// The metadata image of a layer: an EROFS file system without file data. docs/format.md, section "Layer image", is the
// rule book; the on-disk structures are those of the kernel's fs/erofs/erofs_fs.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "format/layer_tree.h"

namespace dsec::format {

inline constexpr std::uint64_t kMaxLayerImageBytes = std::uint64_t{1} << 36;

// The canonical image of a tree: equal trees give equal bytes on every machine. `invalid` names the path of an inode
// that a limit or rule of the format forbids.
Result<Bytes> write_layer(const LayerTree& tree);

// The tree of an image. Accepts exactly what write_layer() makes: every structure is checked and the tree is written
// again and compared, so a successful return means that the image is canonical, acyclic and safe for every reader.
// `corrupt` otherwise, with the offset or path and the rule. Costs about as much as composing; do it once per image.
Result<LayerTree> read_layer(ByteView image);

// One inode of an image, decoded on the fly.
struct InodeView {
  std::uint64_t nid = 0;
  FileType type = FileType::regular;  // `whiteout` for whiteouts; escaped 0:0 devices are `char_device`
  std::uint16_t mode = 0;             // 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  Timestamp mtime;
  std::uint64_t size = 0;  // content, symlink target, or directory data
  std::uint32_t nlink = 0;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint16_t layout = 0;        // EROFS data layout
  std::uint32_t union_field = 0;   // i_u: block address, device or chunk format
  std::uint64_t xattr_offset = 0;  // of the inline xattr area in the image
  std::uint32_t xattr_bytes = 0;
  std::uint64_t tail_offset = 0;  // of what follows the xattrs: inline data
};

struct DirentView {
  std::string_view name;  // points into the image
  std::uint64_t nid = 0;
  std::uint8_t file_type = 0;  // EROFS_FT_*, equal to the FT_* of the dirent; a hint only
};

// How xattrs and whiteouts of a layer are shown.
enum class XattrView {
  plain,    // as composed: escapes undone, nothing of our own visible
  overlay,  // for an overlayfs above: one level of escaping stays ("trusted.overlay.overlay.*")
};

// Reads an image in place, bounds-checked at every step, without building anything: lookups binary-search the
// directory blocks. Every error is `corrupt` unless said otherwise. The image bytes must outlive the view. Immutable
// after open(), so any number of threads may use it.
class ErofsView {
 public:
  static Result<ErofsView> open(ByteView image);

  [[nodiscard]] std::uint64_t root_nid() const { return root_nid_; }
  [[nodiscard]] std::uint64_t inode_count() const { return inode_count_; }
  // True when some inode has an xattr that a user of the tree can see (recorded in the volume name).
  [[nodiscard]] bool has_visible_xattrs() const { return has_visible_xattrs_; }
  // True when some inode is escaped, so that the plain and the overlay view differ.
  [[nodiscard]] bool has_escapes() const { return has_escapes_; }

  [[nodiscard]] Result<InodeView> inode(std::uint64_t nid) const;

  // nid of a name in a directory; `not_found` when there is none. "." and ".." are names like others.
  [[nodiscard]] Result<std::uint64_t> lookup(const InodeView& directory, std::string_view name) const;
  // All entries in order of their names, with "." and ".."; stops early when `visit` returns false.
  Result<void> for_each_entry(const InodeView& directory, const std::function<bool(const DirentView&)>& visit) const;

  [[nodiscard]] Result<std::string> symlink_target(const InodeView& inode) const;
  // Digest of the content of a regular file; zero digest when it is empty.
  [[nodiscard]] Result<Digest> object(const InodeView& inode) const;
  [[nodiscard]] Result<bool> is_opaque(const InodeView& directory) const;
  // Visible xattrs in the order of the image.
  [[nodiscard]] Result<Xattrs> xattrs(const InodeView& inode, XattrView view) const;
  // All of it but its names, as it was given to write_layer(). Of a whiteout only the type.
  [[nodiscard]] Result<Inode> decode(const InodeView& inode) const;
  // An xattr as it stands in the image; `not_found` when absent.
  [[nodiscard]] Result<std::string_view> raw_xattr(const InodeView& inode, std::string_view name) const;
  // Every xattr as it stands in the image: (full name, value).
  Result<void> for_each_raw_xattr(const InodeView& inode,
                                  const std::function<bool(const std::string&, std::string_view)>& visit) const;

 private:
  explicit ErofsView(ByteView image) : image_(image) {}
  struct DirBlock;
  Result<DirBlock> dir_block(const InodeView& directory, std::uint64_t index) const;
  Result<void> load_superblock();

  ByteView image_;
  std::uint64_t root_nid_ = 0;
  std::uint64_t inode_count_ = 0;
  bool has_visible_xattrs_ = false;
  bool has_escapes_ = false;
};

}  // namespace dsec::format
