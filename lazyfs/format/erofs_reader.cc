// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>

#include "base/text.h"
#include "format/erofs.h"
#include "format/internal/erofs_disk.h"
#include "format/internal/xattr_codec.h"

namespace dsec::format {

using namespace disk;

namespace {

Result<FileType> file_type(std::uint16_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return FileType::regular;
    case S_IFDIR: return FileType::directory;
    case S_IFLNK: return FileType::symlink;
    case S_IFCHR: return FileType::char_device;
    case S_IFBLK: return FileType::block_device;
    case S_IFIFO: return FileType::fifo;
    case S_IFSOCK: return FileType::socket;
    default: return fail(ErrorCode::corrupt, "mode {:o} has no file type", mode);
  }
}

bool layout_fits(FileType type, std::uint16_t layout, std::uint64_t size) {
  if (type == FileType::regular) return layout == (size > 0 ? kLayoutChunks : kLayoutPlain);
  if (type == FileType::directory || type == FileType::symlink) {
    return layout == kLayoutPlain || layout == kLayoutInline;
  }
  return layout == kLayoutPlain && size == 0;
}

}  // namespace

Result<ErofsView> ErofsView::open(ByteView image) {
  ErofsView view(image);
  TRY(view.load_superblock());
  return view;
}

Result<void> ErofsView::load_superblock() {
  if (image_.size() < kBlockBytes || image_.size() % kBlockBytes != 0 || image_.size() > kMaxLayerImageBytes) {
    return fail(ErrorCode::corrupt, "{} bytes are no layer image", image_.size());
  }
  const std::uint8_t* const p = image_.data() + kSuperOffset;
  if (load_le<std::uint32_t>(p) != kMagic) return fail(ErrorCode::corrupt, "no EROFS magic");
  if (p[12] != kBlockBits || load_le<std::uint32_t>(p + 80) != kIncompatChunkedFile) {
    return fail(ErrorCode::corrupt, "block size or features are not those of a layer image");
  }
  const std::string_view label = as_text(ByteView(p + 64, kVolumeNameBytes));
  const std::string_view name = label.substr(0, label.find('\0'));
  const std::string_view flags = name.substr(std::min(name.size(), kVolumeName.size()));
  if (!starts_with(name, kVolumeName) || !(flags.empty() || flags == ":x" || flags == ":xe")) {
    return fail(ErrorCode::corrupt, "volume name \"{}\" is none of a layer image", escaped(name));
  }
  has_visible_xattrs_ = flags.find(kFlagXattrs) != std::string_view::npos;
  has_escapes_ = flags.find(kFlagEscapes) != std::string_view::npos;
  root_nid_ = load_le<std::uint16_t>(p + 14);
  inode_count_ = load_le<std::uint64_t>(p + 16);
  const InodeView root = TRY_IN("root directory", inode(root_nid_));
  if (root.type != FileType::directory) return fail(ErrorCode::corrupt, "the root is no directory");
  return {};
}

Result<InodeView> ErofsView::inode(std::uint64_t nid) const {
  if (nid > image_.size() / kSlotBytes) return fail(ErrorCode::corrupt, "inode {} is outside the image", nid);
  const auto bytes = slice(image_, nid * kSlotBytes, kInodeBytes);
  if (!bytes) return fail(ErrorCode::corrupt, "inode {} is outside the image", nid);
  const std::uint8_t* const p = bytes->data();

  InodeView view;
  view.nid = nid;
  const auto format = load_le<std::uint16_t>(p);
  view.layout = static_cast<std::uint16_t>(format >> 1);
  const auto mode = load_le<std::uint16_t>(p + 4);
  view.mode = mode & 07777;
  view.size = load_le<std::uint64_t>(p + 8);
  view.union_field = load_le<std::uint32_t>(p + 16);
  view.uid = load_le<std::uint32_t>(p + 24);
  view.gid = load_le<std::uint32_t>(p + 28);
  view.mtime.sec = static_cast<std::int64_t>(load_le<std::uint64_t>(p + 32));
  view.mtime.nsec = load_le<std::uint32_t>(p + 40);
  view.nlink = load_le<std::uint32_t>(p + 44);
  view.type = TRY_IN(fmt::format("inode {}", nid), file_type(mode));
  if ((format & 1) == 0 || view.mtime.nsec >= 1000000000 || !layout_fits(view.type, view.layout, view.size)) {
    return fail(ErrorCode::corrupt, "inode {} has a format, time or layout that no layer image has", nid);
  }
  const auto icount = load_le<std::uint16_t>(p + 2);
  view.xattr_offset = nid * kSlotBytes + kInodeBytes;
  view.xattr_bytes = icount == 0 ? 0 : static_cast<std::uint32_t>(kXattrHeaderBytes + (icount - 1u) * 4u);
  view.tail_offset = view.xattr_offset + view.xattr_bytes;
  if (view.tail_offset > image_.size())
    return fail(ErrorCode::corrupt, "xattrs of inode {} end outside the image", nid);

  const bool device = view.type == FileType::char_device || view.type == FileType::block_device;
  if (device) {
    view.major = (view.union_field >> 8) & 0xfff;
    view.minor = (view.union_field & 0xff) | ((view.union_field >> 12) & 0xfff00);
  }
  if (view.type == FileType::char_device && view.union_field == 0) view.type = FileType::whiteout;
  if (has_escapes_ && view.type == FileType::regular && view.size == 0 && view.xattr_bytes > 0 &&
      raw_xattr(view, kDeviceMark)) {
    view.type = FileType::char_device;
  }
  return view;
}

// One block of directory entries, checked: every name lies inside.
struct ErofsView::DirBlock {
  ByteView bytes;
  std::size_t count = 0;

  [[nodiscard]] Result<DirentView> entry(std::size_t i) const {
    const std::uint8_t* const p = bytes.data() + i * kDirentBytes;
    const std::size_t start = load_le<std::uint16_t>(p + 8);
    const std::size_t end = i + 1 < count ? load_le<std::uint16_t>(p + kDirentBytes + 8) : bytes.size();
    if (start < count * kDirentBytes || end < start || end > bytes.size()) {
      return fail(ErrorCode::corrupt, "a directory entry's name is outside its block");
    }
    DirentView view;
    view.name = as_text(bytes.subspan(start, end - start));
    if (i + 1 == count) view.name = view.name.substr(0, view.name.find('\0'));
    view.nid = load_le<std::uint64_t>(p);
    view.file_type = p[10];
    if (view.name.empty() || view.name.size() > kMaxNameBytes) {
      return fail(ErrorCode::corrupt, "a directory entry's name has {} bytes", view.name.size());
    }
    return view;
  }
};

Result<ErofsView::DirBlock> ErofsView::dir_block(const InodeView& directory, std::uint64_t index) const {
  const std::uint64_t start = index * kBlockBytes;
  const std::uint64_t length = std::min<std::uint64_t>(kBlockBytes, directory.size - start);
  const bool in_tail = directory.layout == kLayoutInline && index == directory.size / kBlockBytes;
  const std::uint64_t offset =
      in_tail ? directory.tail_offset : (std::uint64_t{directory.union_field} + index) * kBlockBytes;
  const auto bytes = slice(image_, offset, length);
  if (!bytes || bytes->size() < kDirentBytes) {
    return fail(ErrorCode::corrupt, "a block of directory {} is outside the image", directory.nid);
  }
  const std::size_t names_at = load_le<std::uint16_t>(bytes->data() + 8);
  if (names_at == 0 || names_at % kDirentBytes != 0 || names_at > bytes->size()) {
    return fail(ErrorCode::corrupt, "a block of directory {} has a wrong header", directory.nid);
  }
  return DirBlock{*bytes, names_at / kDirentBytes};
}

Result<std::uint64_t> ErofsView::lookup(const InodeView& directory, std::string_view name) const {
  if (directory.type != FileType::directory) return fail(ErrorCode::corrupt, "inode {} is no directory", directory.nid);
  // The last block whose first name is not after `name`, then the name in it.
  std::uint64_t low = 0;
  std::uint64_t high = (directory.size + kBlockBytes - 1) / kBlockBytes;
  while (low + 1 < high) {
    const std::uint64_t middle = (low + high) / 2;
    const DirBlock block = TRY(dir_block(directory, middle));
    const DirentView first = TRY(block.entry(0));
    if (name < first.name)
      high = middle;
    else
      low = middle;
  }
  if (high == 0) return fail(ErrorCode::corrupt, "directory {} is empty", directory.nid);
  const DirBlock block = TRY(dir_block(directory, low));
  std::size_t first = 0;
  std::size_t last = block.count;
  while (first < last) {
    const std::size_t middle = (first + last) / 2;
    const DirentView entry = TRY(block.entry(middle));
    if (entry.name == name) return entry.nid;
    if (entry.name < name)
      first = middle + 1;
    else
      last = middle;
  }
  return tl::unexpected(Error{ErrorCode::not_found, {}, 0});  // without a text: this is asked millions of times
}

Result<void> ErofsView::for_each_entry(const InodeView& directory,
                                       const std::function<bool(const DirentView&)>& visit) const {
  if (directory.type != FileType::directory) return fail(ErrorCode::corrupt, "inode {} is no directory", directory.nid);
  const std::uint64_t blocks = (directory.size + kBlockBytes - 1) / kBlockBytes;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const DirBlock block = TRY(dir_block(directory, i));
    for (std::size_t j = 0; j < block.count; ++j) {
      const DirentView entry = TRY(block.entry(j));
      if (!visit(entry)) return {};
    }
  }
  return {};
}

Result<std::string> ErofsView::symlink_target(const InodeView& inode) const {
  if (inode.type != FileType::symlink || inode.size == 0 || inode.size > kMaxSymlinkBytes) {
    return fail(ErrorCode::corrupt, "inode {} is no symlink of 1 to {} bytes", inode.nid, kMaxSymlinkBytes);
  }
  const std::uint64_t offset =
      inode.layout == kLayoutInline ? inode.tail_offset : std::uint64_t{inode.union_field} * kBlockBytes;
  const auto bytes = slice(image_, offset, inode.size);
  if (!bytes) return fail(ErrorCode::corrupt, "the target of symlink {} is outside the image", inode.nid);
  return std::string(as_text(*bytes));
}

namespace {

struct RawXattr {
  std::uint8_t index;
  std::string_view rest;
  std::string_view value;
};

// Walks an inline xattr area; `visit` returns false to stop.
template <typename Visit>
Result<void> walk_xattrs(ByteView image, const InodeView& inode, Visit visit) {
  if (inode.xattr_bytes == 0) return {};
  const auto area = slice(image, inode.xattr_offset, inode.xattr_bytes);
  if (!area) return fail(ErrorCode::corrupt, "xattrs of inode {} are outside the image", inode.nid);
  if ((*area)[4] != 0)
    return fail(ErrorCode::corrupt, "inode {} has shared xattrs, which no layer image has", inode.nid);
  ByteReader reader(area->subspan(kXattrHeaderBytes));
  while (reader.remaining() >= kXattrEntryBytes) {
    const auto rest_bytes = reader.get<std::uint8_t>();
    const auto index = reader.get<std::uint8_t>();
    const auto value_bytes = reader.get<std::uint16_t>();
    const std::string_view rest = as_text(reader.get_bytes(rest_bytes));
    const std::string_view value = as_text(reader.get_bytes(value_bytes));
    const std::size_t padding = (4 - (rest_bytes + value_bytes) % 4) % 4;
    reader.get_bytes(padding);
    if (!reader.ok()) return fail(ErrorCode::corrupt, "an xattr of inode {} ends outside its area", inode.nid);
    if (!visit(RawXattr{index, rest, value})) return {};
  }
  return {};
}

}  // namespace

Result<std::string_view> ErofsView::raw_xattr(const InodeView& inode, std::string_view name) const {
  const auto key = xattr_key(name);
  std::optional<std::string_view> found;
  TRY(walk_xattrs(image_, inode, [&](const RawXattr& xattr) {
    if (key && xattr.index == key->first && xattr.rest == key->second) found = xattr.value;
    return !found.has_value();
  }));
  if (!found) return tl::unexpected(Error{ErrorCode::not_found, {}, 0});
  return *found;
}

Result<void> ErofsView::for_each_raw_xattr(
    const InodeView& inode, const std::function<bool(const std::string&, std::string_view)>& visit) const {
  bool known = true;
  TRY(walk_xattrs(image_, inode, [&](const RawXattr& xattr) {
    const std::string name = xattr_name(xattr.index, xattr.rest);
    known = !name.empty();
    return known && visit(name, xattr.value);
  }));
  if (!known) return fail(ErrorCode::corrupt, "inode {} has an xattr of an unknown namespace", inode.nid);
  return {};
}

Result<Digest> ErofsView::object(const InodeView& inode) const {
  if (inode.type != FileType::regular) return fail(ErrorCode::corrupt, "inode {} is no file", inode.nid);
  if (inode.size == 0) return Digest{};
  auto path = raw_xattr(inode, kRedirect);
  if (!path) return fail(ErrorCode::corrupt, "file {} has no object", inode.nid);
  return parse_object_path(*path);
}

Result<bool> ErofsView::is_opaque(const InodeView& directory) const {
  if (directory.xattr_bytes == 0) return false;
  auto value = raw_xattr(directory, kOpaque);
  if (!value && value.error().code != ErrorCode::not_found) return tl::unexpected(value.error());
  return value.has_value() && *value == "y";
}

Result<Xattrs> ErofsView::xattrs(const InodeView& inode, XattrView view) const {
  Xattrs visible;
  if (!has_visible_xattrs_ || inode.xattr_bytes == 0) return visible;
  const bool device = inode.type == FileType::char_device && inode.major == 0 && inode.minor == 0;
  const bool xwhiteouts = inode.type == FileType::directory && raw_xattr(inode, kXwhiteoutsMark).has_value();
  TRY(for_each_raw_xattr(inode, [&](const std::string& raw_name, std::string_view value) {
    if (auto name = visible_name(raw_name, view, device, xwhiteouts)) visible.emplace(*name, value);
    return true;
  }));
  return visible;
}

Result<Inode> ErofsView::decode(const InodeView& view) const {
  Inode inode;
  inode.type = view.type;
  if (view.type == FileType::whiteout) return inode;
  inode.mode = view.mode;
  inode.uid = view.uid;
  inode.gid = view.gid;
  inode.mtime = view.mtime;
  inode.major = view.major;
  inode.minor = view.minor;
  if (view.type == FileType::regular) {
    inode.size = view.size;
    inode.object = TRY(object(view));
  }
  if (view.type == FileType::symlink) inode.target = TRY(symlink_target(view));
  if (view.type == FileType::directory) inode.opaque = TRY(is_opaque(view));
  inode.xattrs = TRY(xattrs(view, XattrView::plain));
  return inode;
}

}  // namespace dsec::format
