// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>

#include "base/text.h"
#include "format/erofs.h"
#include "format/internal/crc32c.h"
#include "format/internal/erofs_disk.h"
#include "format/internal/xattr_codec.h"

namespace dsec::format {

namespace {

using namespace disk;

// Where one inode and its data go.
struct Placement {
  InodeId id = 0;
  InodeId parent = 0;     // of a directory
  std::string_view name;  // its first name, for errors
  Bytes xattrs;
  std::uint16_t layout = kLayoutPlain;
  std::uint64_t data_bytes = 0;   // directory data or symlink target
  std::uint64_t chunk_bytes = 0;  // chunk array of a file
  std::uint64_t offset = 0;
  std::uint64_t block = 0;  // first data block outside the inode area

  [[nodiscard]] std::size_t head_bytes() const { return kInodeBytes + xattrs.size(); }
  [[nodiscard]] std::uint64_t inline_bytes() const { return layout == kLayoutInline ? data_bytes % kBlockBytes : 0; }
  [[nodiscard]] std::uint64_t full_blocks() const {
    return layout == kLayoutInline ? data_bytes / kBlockBytes : align_up(data_bytes, kBlockBytes) / kBlockBytes;
  }
  [[nodiscard]] std::uint64_t nid() const { return offset / kSlotBytes; }
};

std::uint8_t dirent_type(const Inode& inode) {
  if (is_device_zero(inode)) return kFtRegular;
  switch (inode.type) {
    case FileType::regular: return kFtRegular;
    case FileType::directory: return kFtDirectory;
    case FileType::symlink: return kFtSymlink;
    case FileType::char_device:
    case FileType::whiteout: return kFtChar;
    case FileType::block_device: return kFtBlock;
    case FileType::fifo: return kFtFifo;
    case FileType::socket: return kFtSocket;
  }
  return kFtRegular;
}

std::uint16_t full_mode(const Inode& inode) {
  static constexpr std::uint16_t kTypes[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK, S_IFCHR};
  const auto type = is_device_zero(inode) ? FileType::regular : inode.type;
  return static_cast<std::uint16_t>(kTypes[static_cast<int>(type)] | inode.mode);
}

// The kernel's new_encode_dev().
std::uint32_t encode_device(std::uint32_t major, std::uint32_t minor) {
  return (minor & 0xff) | (major << 8) | ((minor & ~0xffu) << 12);
}

class Writer {
 public:
  explicit Writer(const LayerTree& tree) : tree_(tree), index_of_(tree.capacity(), kUnplaced) {}

  Result<Bytes> run() {
    enumerate();
    std::uint64_t at = kRootOffset;
    for (Placement& item : items_) {
      if (auto planned = plan(item); !planned) return tl::unexpected(planned.error().within(path_of(item)));
      place(item, at);
    }
    std::uint64_t block = align_up(at, kBlockBytes) / kBlockBytes;
    for (Placement& item : items_) {
      item.block = block;
      block += item.full_blocks();
    }
    if (block * kBlockBytes > kMaxLayerImageBytes) {
      return fail(ErrorCode::invalid, "the layer's metadata takes more than {} bytes", kMaxLayerImageBytes);
    }
    image_.resize(block * kBlockBytes);
    for (const Placement& item : items_) emit(item);
    emit_superblock(block);
    return std::move(image_);
  }

 private:
  static constexpr std::uint32_t kUnplaced = ~std::uint32_t{0};

  // Breadth first, so that the inodes of one directory lie together, in the order of their names (F-21).
  void enumerate() {
    add(LayerTree::root(), LayerTree::root(), "/");
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const InodeId directory = items_[i].id;
      for (const auto& [name, child] : tree_.children(directory)) {
        if (index_of_[child] == kUnplaced) add(child, directory, name);
      }
    }
  }

  void add(InodeId id, InodeId parent, std::string_view name) {
    index_of_[id] = static_cast<std::uint32_t>(items_.size());
    items_.push_back(Placement{.id = id, .parent = parent, .name = name});
  }

  [[nodiscard]] std::string path_of(const Placement& item) const {
    std::string path(item.name);
    for (InodeId id = item.parent; id != LayerTree::root(); id = tree_.parent(id)) {
      path = fmt::format("{}/{}", items_[index_of_[id]].name, path);
    }
    return escaped(item.id == LayerTree::root() ? path : "/" + path);
  }

  [[nodiscard]] HoldsDevices holds_devices(InodeId id) const {
    const auto& children = tree_.children(id);
    const bool found = std::any_of(children.begin(), children.end(),
                                   [&](const auto& child) { return is_device_zero(tree_.inode(child.second)); });
    return found ? HoldsDevices::yes : HoldsDevices::no;
  }

  // An attribute that the type of the inode does not have and that would be lost without a word, or nullptr.
  static const char* stray_attribute(const Inode& inode) {
    const bool is_file = inode.type == FileType::regular;
    const bool is_device = inode.type == FileType::char_device || inode.type == FileType::block_device;
    if (!is_file && inode.size > 0) return "size";
    if (!is_file && !inode.object.is_zero()) return "object";
    if (!is_device && (inode.major > 0 || inode.minor > 0)) return "device number";
    if (inode.type != FileType::symlink && !inode.target.empty()) return "target";
    if (inode.type != FileType::directory && inode.opaque) return "opaque mark";
    return nullptr;
  }

  Result<void> check(const Inode& inode) const {
    if (inode.mode > 07777) return fail(ErrorCode::invalid, "mode {:o} has more than permission bits", inode.mode);
    if (inode.uid == kNoOwner || inode.gid == kNoOwner)
      return fail(ErrorCode::invalid, "owner {} is nobody's", kNoOwner);
    if (inode.mtime.nsec >= 1000000000)
      return fail(ErrorCode::invalid, "{} ns are more than a second", inode.mtime.nsec);
    if (inode.size > kMaxFileBytes)
      return fail(ErrorCode::invalid, "{} bytes are more than a file can have", inode.size);
    if (inode.major > kMaxMajor || inode.minor > kMaxMinor) {
      return fail(ErrorCode::invalid, "device {}:{} is beyond {}:{}", inode.major, inode.minor, kMaxMajor, kMaxMinor);
    }
    if (const char* stray = stray_attribute(inode)) {
      return fail(ErrorCode::invalid, "a {} has no {}", to_string(inode.type), stray);
    }
    const bool is_link = inode.type == FileType::symlink;
    if (is_link && (inode.target.empty() || inode.target.size() > kMaxSymlinkBytes ||
                    inode.target.find('\0') != std::string::npos)) {
      return fail(ErrorCode::invalid, "a symlink's target has 1 to {} bytes and no NUL", kMaxSymlinkBytes);
    }
    if (inode.type == FileType::regular && (inode.size > 0) == inode.object.is_zero()) {
      return fail(ErrorCode::invalid, "a file has an object if, and only if, it has content");
    }
    if (inode.type == FileType::whiteout && inode != Inode{.type = FileType::whiteout}) {
      return fail(ErrorCode::invalid, "a whiteout has no attributes");
    }
    return {};
  }

  Result<void> plan(Placement& item) {
    const Inode& inode = tree_.inode(item.id);
    TRY(check(inode));
    const RawXattrs raw = TRY(raw_of(inode, item.id));
    item.xattrs = TRY(encode_xattrs(raw));
    if (!inode.xattrs.empty()) has_xattrs_ = true;
    if (is_device_zero(inode) || escapes(inode)) has_escapes_ = true;
    if (inode.type == FileType::directory) item.data_bytes = directory_bytes(item.id);
    if (inode.type == FileType::symlink) item.data_bytes = inode.target.size();
    if (inode.type == FileType::regular && inode.size > 0) {
      item.layout = kLayoutChunks;
      item.chunk_bytes = ((inode.size - 1) >> kChunkBits) * 4 + 4;
    }
    const std::uint64_t tail = item.data_bytes % kBlockBytes;
    if (tail > 0 && item.head_bytes() + tail <= kBlockBytes) item.layout = kLayoutInline;
    return {};
  }

  static bool escapes(const Inode& inode) {
    return std::any_of(inode.xattrs.begin(), inode.xattrs.end(),
                       [](const auto& xattr) { return starts_with(xattr.first, kOverlayPrefix); });
  }

  // The next slot; an inode with inline data starts a new block rather than cross one (F-22).
  static void place(Placement& item, std::uint64_t& at) {
    at = align_up(at, kSlotBytes);
    const std::uint64_t bytes = item.head_bytes() + item.inline_bytes();
    if (item.layout == kLayoutInline && at % kBlockBytes + bytes > kBlockBytes) at = align_up(at, kBlockBytes);
    item.offset = at;
    at += bytes + item.chunk_bytes;
  }

  // Names of a directory with "." and "..", in byte order.
  [[nodiscard]] std::vector<std::pair<std::string_view, InodeId>> entries(InodeId id) const {
    std::vector<std::pair<std::string_view, InodeId>> list;
    list.reserve(tree_.children(id).size() + 2);
    list.emplace_back(".", id);
    list.emplace_back("..", tree_.parent(id));
    for (const auto& [name, child] : tree_.children(id)) list.emplace_back(name, child);
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return list;
  }

  // Splits entries into blocks; calls done(first, last, bytes) for each.
  template <typename Done>
  static void each_block(const std::vector<std::pair<std::string_view, InodeId>>& list, Done done) {
    std::size_t first = 0;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::size_t need = kDirentBytes + list[i].first.size();
      if (bytes + need > kBlockBytes) {
        done(first, i, bytes);
        first = i;
        bytes = 0;
      }
      bytes += need;
    }
    done(first, list.size(), bytes);
  }

  [[nodiscard]] std::uint64_t directory_bytes(InodeId id) const {
    std::uint64_t blocks = 0;
    std::uint64_t last = 0;
    each_block(entries(id), [&](std::size_t, std::size_t, std::size_t bytes) {
      ++blocks;
      last = bytes;
    });
    return (blocks - 1) * kBlockBytes + last;
  }

  void emit(const Placement& item) {
    const Inode& inode = tree_.inode(item.id);
    emit_inode(item, inode);
    std::uint8_t* const head = image_.data() + item.offset;
    std::copy(item.xattrs.begin(), item.xattrs.end(), head + kInodeBytes);
    if (item.chunk_bytes > 0) std::fill_n(head + item.head_bytes(), item.chunk_bytes, std::uint8_t{0xff});
    if (inode.type == FileType::symlink) {
      std::copy(inode.target.begin(), inode.target.end(), data_block(item, 0));
    }
    if (inode.type == FileType::directory) emit_directory(item);
  }

  // Where block `index` of the data of an inode stands in the image.
  std::uint8_t* data_block(const Placement& item, std::uint64_t index) {
    if (index < item.full_blocks()) return image_.data() + (item.block + index) * kBlockBytes;
    return image_.data() + item.offset + item.head_bytes();
  }

  void emit_inode(const Placement& item, const Inode& inode) {
    std::uint32_t union_field = 0;
    const bool device = inode.type == FileType::char_device || inode.type == FileType::block_device;
    if (item.layout == kLayoutChunks)
      union_field = kChunkFormat;
    else if (device && !is_device_zero(inode))
      union_field = encode_device(inode.major, inode.minor);
    else if (item.full_blocks() > 0)
      union_field = static_cast<std::uint32_t>(item.block);
    const std::size_t icount = item.xattrs.empty() ? 0 : (item.xattrs.size() - kXattrHeaderBytes) / 4 + 1;

    std::uint8_t* const p = image_.data() + item.offset;
    store_le<std::uint16_t>(p, inode_format(item.layout));
    store_le<std::uint16_t>(p + 2, static_cast<std::uint16_t>(icount));
    store_le<std::uint16_t>(p + 4, full_mode(inode));
    store_le<std::uint64_t>(p + 8, inode.type == FileType::regular ? inode.size : item.data_bytes);
    store_le<std::uint32_t>(p + 16, union_field);
    store_le<std::uint32_t>(p + 20, index_of_[item.id] + 1);
    store_le<std::uint32_t>(p + 24, inode.uid);
    store_le<std::uint32_t>(p + 28, inode.gid);
    store_le<std::uint64_t>(p + 32, static_cast<std::uint64_t>(inode.mtime.sec));
    store_le<std::uint32_t>(p + 40, inode.mtime.nsec);
    store_le<std::uint32_t>(p + 44, tree_.link_count(item.id));
  }

  void emit_directory(const Placement& item) {
    const auto list = entries(item.id);
    std::uint64_t index = 0;
    each_block(list, [&](std::size_t first, std::size_t last, std::size_t) {
      std::uint8_t* const block = data_block(item, index++);
      std::size_t name_at = (last - first) * kDirentBytes;
      for (std::size_t i = first; i < last; ++i) {
        std::uint8_t* const dirent = block + (i - first) * kDirentBytes;
        store_le<std::uint64_t>(dirent, items_[index_of_[list[i].second]].nid());
        store_le<std::uint16_t>(dirent + 8, static_cast<std::uint16_t>(name_at));
        dirent[10] = dirent_type(tree_.inode(list[i].second));
        std::copy(list[i].first.begin(), list[i].first.end(), block + name_at);
        name_at += list[i].first.size();
      }
    });
  }

  void emit_superblock(std::uint64_t blocks) {
    std::uint8_t* const p = image_.data() + kSuperOffset;
    store_le<std::uint32_t>(p, kMagic);
    store_le<std::uint32_t>(p + 8, kCompatChecksum | kCompatMtime);
    p[12] = kBlockBits;
    store_le<std::uint16_t>(p + 14, static_cast<std::uint16_t>(items_[0].nid()));
    store_le<std::uint64_t>(p + 16, items_.size());
    store_le<std::uint32_t>(p + 36, static_cast<std::uint32_t>(blocks));
    std::string name(kVolumeName);
    if (has_xattrs_ || has_escapes_) name += fmt::format(":{}", kFlagXattrs);
    if (has_escapes_) name += kFlagEscapes;
    std::copy(name.begin(), name.end(), p + 64);
    store_le<std::uint32_t>(p + 80, kIncompatChunkedFile);
    store_le<std::uint32_t>(p + 4, crc32c(~0u, ByteView(image_).subspan(kSuperOffset, kBlockBytes - kSuperOffset)));
  }

  Result<RawXattrs> raw_of(const Inode& inode, InodeId id) const {
    if (inode.type == FileType::whiteout) return RawXattrs{};
    return raw_xattrs(inode, holds_devices(id));
  }

  const LayerTree& tree_;
  std::vector<std::uint32_t> index_of_;
  std::vector<Placement> items_;
  Bytes image_;
  bool has_xattrs_ = false;
  bool has_escapes_ = false;
};

}  // namespace

Result<Bytes> write_layer(const LayerTree& tree) { return Writer(tree).run(); }

}  // namespace dsec::format
