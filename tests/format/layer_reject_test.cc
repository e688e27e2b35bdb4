// SPDX-License-Identifier: Apache-2.0
// One edit of a good image for every rule of docs/format.md, each of which read_layer() must refuse.
#include <catch2/catch.hpp>

#include "format/dump.h"
#include "format/erofs.h"
#include "format/internal/crc32c.h"
#include "format/internal/erofs_disk.h"
#include "format/internal/xattr_codec.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::disk;

namespace {

// "big" has one full block of entries and an inline rest; the xattr value of "a" ends with padding.
std::string base_dump() {
  std::string text =
      "/ directory\n"
      "/a regular size=6 object=" +
      sha256(as_bytes("hello\n")).hex() +
      " xattr:user.k=v xattr:user.l=w\n"
      "/b directory opaque\n"
      "/b/x whiteout\n"
      "/b/y symlink target=somewhere\n"
      "/big directory\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("/big/name-{:03} fifo\n", i);
  return text +
         "/c char_device device=1:3\n"
         "/e regular\n"
         "/l symlink target=" +
         std::string(4090, 't') +
         "\n"
         "/z whiteout\n";
}

// A good image that can be edited at the places of its structures.
class Edit {
 public:
  Edit() : image_(write_layer(parse_dump(base_dump()).value()).value()) {}

  std::uint8_t* super() { return image_.data() + kSuperOffset; }
  std::uint8_t* inode(std::string_view path) { return image_.data() + view_of(path).nid * kSlotBytes; }
  std::uint8_t* xattrs(std::string_view path) { return inode(path) + kInodeBytes; }
  // Inline data, or the chunk map of a file.
  std::uint8_t* tail(std::string_view path) { return image_.data() + view_of(path).tail_offset; }
  std::uint8_t* block(std::string_view path) {
    return image_.data() + std::size_t{view_of(path).union_field} * kBlockBytes;
  }
  // The directory entry of a name in inline directory data.
  std::uint8_t* dirent(std::string_view directory, std::size_t index) { return tail(directory) + index * kDirentBytes; }
  std::uint8_t* first_name(std::string_view directory) {
    return tail(directory) + load_le<std::uint16_t>(tail(directory) + 8);
  }
  std::uint64_t nid(std::string_view path) { return view_of(path).nid; }
  Bytes& bytes() { return image_; }

  // With a checksum that fits, so that it is not the checksum that refuses.
  const Bytes& finish() {
    if (image_.size() < kBlockBytes) return image_;
    store_le<std::uint32_t>(super() + 4, 0);
    const ByteView covered = ByteView(image_).subspan(kSuperOffset, kBlockBytes - kSuperOffset);
    store_le<std::uint32_t>(super() + 4, crc32c(~0u, covered));
    return image_;
  }

 private:
  InodeView view_of(std::string_view path) const {
    const ErofsView view = ErofsView::open(image_).value();
    InodeView inode = view.inode(view.root_nid()).value();
    for (std::size_t at = 1; at < path.size();) {
      const std::size_t end = std::min(path.find('/', at), path.size());
      inode = view.inode(view.lookup(inode, path.substr(at, end - at)).value()).value();
      at = end + 1;
    }
    return inode;
  }

  Bytes image_;
};

template <typename T>
void add_le(std::uint8_t* at, T amount) {
  store_le<T>(at, static_cast<T>(load_le<T>(at) + amount));
}

struct Rejection {
  const char* rule;
  void (*apply)(Edit&);
};

void swap_bytes(std::uint8_t* a, std::uint8_t* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::swap(a[i], b[i]);
}

// Offsets are those of the tables of docs/format.md.
constexpr Rejection kRejections[] = {
    {"F-10: an image has at least one block", [](Edit& e) { e.bytes().clear(); }},
    {"F-10: an image ends with a block", [](Edit& e) { e.bytes().push_back(0); }},
    {"F-10: an image has no block too many", [](Edit& e) { e.bytes().resize(e.bytes().size() + kBlockBytes); }},
    {"F-10: an image has no block too few", [](Edit& e) { e.bytes().resize(e.bytes().size() - kBlockBytes); }},
    {"F-11: the magic", [](Edit& e) { e.super()[0] ^= 1; }},
    {"F-11: the compatible features", [](Edit& e) { e.super()[8] ^= 4; }},
    {"F-11: the block size", [](Edit& e) { e.super()[12] = 9; }},
    {"F-11: superblock extension slots", [](Edit& e) { e.super()[13] = 1; }},
    {"F-11: the build time is zero", [](Edit& e) { e.super()[24] = 1; }},
    {"F-11: the UUID is zero", [](Edit& e) { e.super()[48] = 1; }},
    {"F-11: the incompatible features", [](Edit& e) { e.super()[80] ^= 1; }},
    {"F-11: the rest of the superblock is zero", [](Edit& e) { e.super()[127] = 1; }},
    {"F-11: the root's place", [](Edit& e) { e.super()[14] = static_cast<std::uint8_t>(e.nid("/b")); }},
    {"F-13: another volume name", [](Edit& e) { e.super()[64] = 'D'; }},
    {"F-13: flags that say too little", [](Edit& e) { e.super()[64 + 5] = e.super()[64 + 6] = 0; }},
    {"F-13: flags that say too much", [](Edit& e) { e.super()[64 + 7] = 'e'; }},
    {"F-13: an unknown flag", [](Edit& e) { e.super()[64 + 6] = 'y'; }},
    {"F-13: bytes after the volume name", [](Edit& e) { e.super()[79] = 'x'; }},
    {"F-14: the number of inodes", [](Edit& e) { add_le<std::uint64_t>(e.super() + 16, 1); }},
    {"F-14: the number of blocks", [](Edit& e) { add_le<std::uint32_t>(e.super() + 36, 1); }},
    {"F-15: a compact inode", [](Edit& e) { e.inode("/a")[0] &= 0xfe; }},
    {"F-15: the inode's number", [](Edit& e) { add_le<std::uint32_t>(e.inode("/a") + 20, 1); }},
    {"F-15: reserved bytes of an inode", [](Edit& e) { e.inode("/a")[63] = 1; }},
    {"F-15: the unused field of an inode", [](Edit& e) { e.inode("/a")[6] = 1; }},
    {"F-16: a mode without a type", [](Edit& e) { e.inode("/a")[5] = 0; }},
    {"F-16: a type that the entry contradicts", [](Edit& e) { e.inode("/e")[5] = 0x10; }},
    {"F-17: more nanoseconds than a second has",
     [](Edit& e) { store_le<std::uint32_t>(e.inode("/a") + 40, 1000000000); }},
    {"F-18: a file with content without chunks", [](Edit& e) { store_le<std::uint16_t>(e.inode("/a"), 1); }},
    {"F-18: a directory with chunks", [](Edit& e) { store_le<std::uint16_t>(e.inode("/b"), 1 | 4 << 1); }},
    {"F-18: an empty file with chunks", [](Edit& e) { store_le<std::uint16_t>(e.inode("/e"), 1 | 4 << 1); }},
    {"F-18: a layout of compressed data", [](Edit& e) { store_le<std::uint16_t>(e.inode("/a"), 1 | 3 << 1); }},
    {"F-18: a device with a size", [](Edit& e) { e.inode("/c")[8] = 1; }},
    {"F-18: a whiteout with inline data", [](Edit& e) { store_le<std::uint16_t>(e.inode("/z"), 1 | 2 << 1); }},
    {"F-19: another chunk size", [](Edit& e) { e.inode("/a")[16] = 30; }},
    {"F-19: a chunk that is stored in the image", [](Edit& e) { store_le<std::uint32_t>(e.tail("/a"), 0); }},
    {"F-19: a block address without blocks", [](Edit& e) { e.inode("/b")[16] = 1; }},
    {"F-19: a device number of a file", [](Edit& e) { e.inode("/e")[16] = 1; }},
    {"F-20: the link count of a file", [](Edit& e) { e.inode("/a")[44] = 2; }},
    {"F-20: the link count of a directory", [](Edit& e) { e.inode("/")[44] = 2; }},
    {"F-21: inodes in another order",
     [](Edit& e) {
       swap_bytes(e.inode("/big/name-000"), e.inode("/big/name-001"), kInodeBytes);
       swap_bytes(e.block("/big") + 2 * kDirentBytes, e.block("/big") + 3 * kDirentBytes, 8);
     }},
    {"F-22: inline data that crosses a block",
     [](Edit& e) { store_le<std::uint16_t>(e.inode("/l"), inode_format(kLayoutInline)); }},
    {"F-23: data blocks in another place", [](Edit& e) { add_le<std::uint32_t>(e.inode("/l") + 16, 0x10000); }},
    {"F-23: two inodes with one data block",
     [](Edit& e) { store_le<std::uint32_t>(e.inode("/l") + 16, load_le<std::uint32_t>(e.inode("/big") + 16)); }},
    {"F-24: entries out of order", [](Edit& e) { swap_bytes(e.dirent("/b", 2), e.dirent("/b", 3), 8); }},
    {"F-24: a name twice", [](Edit& e) { *(e.first_name("/b") + 3) = 'y'; }},
    {"F-24: the type in an entry", [](Edit& e) { e.dirent("/b", 2)[10] = kFtRegular; }},
    {"F-24: the reserved byte of an entry", [](Edit& e) { e.dirent("/b", 2)[11] = 1; }},
    {"F-24: a first name before the entries end", [](Edit& e) { store_le<std::uint16_t>(e.dirent("/b", 0) + 8, 12); }},
    {"F-24: a first name at no multiple of 12", [](Edit& e) { add_le<std::uint16_t>(e.dirent("/b", 0) + 8, 1); }},
    {"F-24: a block that says it has no entries", [](Edit& e) { store_le<std::uint16_t>(e.dirent("/b", 0) + 8, 0); }},
    {"F-24: a name after the end", [](Edit& e) { store_le<std::uint16_t>(e.dirent("/b", 3) + 8, 0xffff); }},
    {"F-24: names that run backwards", [](Edit& e) { store_le<std::uint16_t>(e.dirent("/b", 2) + 8, 48); }},
    {"F-24: no entry for the directory itself", [](Edit& e) { *e.first_name("/b") = '-'; }},
    {"F-24: another parent", [](Edit& e) { store_le<std::uint64_t>(e.dirent("/b", 1), e.nid("/b")); }},
    {"F-24: another self", [](Edit& e) { store_le<std::uint64_t>(e.dirent("/b", 0), e.nid("/")); }},
    {"F-24: an entry of an inode outside the image",
     [](Edit& e) { store_le<std::uint64_t>(e.dirent("/b", 2), ~0ull); }},
    {"F-25: an empty directory without entries", [](Edit& e) { store_le<std::uint64_t>(e.inode("/b") + 8, 0); }},
    {"F-25: a directory longer than its entries", [](Edit& e) { add_le<std::uint64_t>(e.inode("/b") + 8, 1); }},
    {"F-25: a directory that ends in a name", [](Edit& e) { add_le<std::uint64_t>(e.inode("/b") + 8, ~0ull); }},
    {"F-25: bytes after the last name of a block", [](Edit& e) { e.block("/big")[kBlockBytes - 1] ^= 'x'; }},
    {"F-26: a slash in a name", [](Edit& e) { *(e.first_name("/b") + 3) = '/'; }},
    {"F-26: a NUL in a name", [](Edit& e) { *(e.first_name("/") + 1) = 0; }},
    {"F-26: an empty name", [](Edit& e) { add_le<std::uint16_t>(e.dirent("/b", 3) + 8, 0xffff); }},
    {"F-27: a second name of a directory", [](Edit& e) { store_le<std::uint64_t>(e.dirent("/", 2), e.nid("/b")); }},
    {"F-27: a directory inside itself", [](Edit& e) { store_le<std::uint64_t>(e.dirent("/b", 2), e.nid("/b")); }},
    {"F-27: the root inside a directory", [](Edit& e) { store_le<std::uint64_t>(e.dirent("/b", 2), e.nid("/")); }},
    {"F-27: a second name of a whiteout", [](Edit& e) { store_le<std::uint64_t>(e.dirent("/b", 2), e.nid("/z")); }},
    {"F-28: a whiteout with permissions", [](Edit& e) { e.inode("/z")[4] = 0x80; }},
    {"F-28: a whiteout with an owner", [](Edit& e) { e.inode("/z")[24] = 1; }},
    {"F-28: a whiteout with a time", [](Edit& e) { e.inode("/z")[32] = 1; }},
    {"F-29: bytes before the superblock", [](Edit& e) { e.bytes()[0] = 1; }},
    {"F-29: bytes between structures", [](Edit& e) { e.tail("/b/y")[9] = 1; }},
    {"F-29: bytes after a symlink in its block", [](Edit& e) { e.block("/l")[4095] = 1; }},
    {"F-30: a name filter", [](Edit& e) { e.xattrs("/a")[0] = 1; }},
    {"F-30: shared xattrs", [](Edit& e) { e.xattrs("/a")[4] = 1; }},
    {"F-30: reserved bytes of the header", [](Edit& e) { e.xattrs("/a")[5] = 1; }},
    {"F-31: an area that ends in an xattr", [](Edit& e) { add_le<std::uint16_t>(e.inode("/a") + 2, 0xffff); }},
    {"F-31: an area outside the image", [](Edit& e) { store_le<std::uint16_t>(e.inode("/z") + 2, 0xffff); }},
    {"F-31: padding that is not zero", [](Edit& e) { e.xattrs("/a")[12 + 6] = 1; }},
    {"F-32: xattrs out of order", [](Edit& e) { swap_bytes(e.xattrs("/a") + 12 + 4, e.xattrs("/a") + 20 + 4, 1); }},
    {"F-32: an xattr twice", [](Edit& e) { e.xattrs("/a")[20 + 4] = 'k'; }},
    {"F-33: an unknown namespace", [](Edit& e) { e.xattrs("/a")[12 + 1] = 5; }},
    {"F-33: a prefix without a name", [](Edit& e) { e.xattrs("/a")[12] = 0; }},
    {"F-34: a value that ends outside the area",
     [](Edit& e) { store_le<std::uint16_t>(e.xattrs("/a") + 12 + 2, 0xffff); }},
    {"F-35: no metacopy mark", [](Edit& e) { e.xattrs("/a")[28 + 4 + 15] = 'x'; }},
    {"F-35: a redirect that is no object", [](Edit& e) { *(e.tail("/a") - 3) = 'A'; }},
    {"F-36: an opaque mark with another value", [](Edit& e) { *(e.tail("/b") - 2) = 'x'; }},
};

}  // namespace

TEST_CASE("the image that the edits start from is good") {
  Edit edit;
  const Bytes before = edit.bytes();
  CHECK((edit.finish() == before));
  CHECK(read_layer(before));
}

TEST_CASE("an image that breaks one rule is refused as corrupt") {
  for (const Rejection& rejection : kRejections) {
    INFO(rejection.rule);
    Edit edit;
    const Bytes before = edit.bytes();
    rejection.apply(edit);
    REQUIRE((edit.finish() != before));
    const auto tree = read_layer(edit.bytes());
    REQUIRE_FALSE(tree);
    CHECK(tree.error().code == ErrorCode::corrupt);
    CHECK_FALSE(tree.error().message.empty());
  }
}

TEST_CASE("F-12: a wrong checksum is refused") {
  Edit edit;
  edit.super()[4] ^= 1;
  CHECK_FALSE(read_layer(edit.bytes()));
}

namespace {

Inode of_type(FileType type) {
  Inode inode;
  inode.type = type;
  return inode;
}

// An image with `count` directories, of which each has the data of the first, so that its tree is their product.
Bytes image_with_shared_directory_data(int count) {
  LayerTree tree;
  const InodeId first = tree.add(LayerTree::root(), "0", of_type(FileType::directory)).value();
  for (int i = 0; i < count; ++i) {
    REQUIRE(tree.add(first, fmt::format("shared-entry-{:06}", i), of_type(FileType::fifo)));
    REQUIRE(tree.add(LayerTree::root(), fmt::format("d{:06}", i), of_type(FileType::directory)));
  }
  Bytes image = write_layer(tree).value();
  const ErofsView view = ErofsView::open(image).value();
  const InodeView root = view.inode(view.root_nid()).value();
  const std::uint64_t shared = view.lookup(root, "0").value();
  for (int i = 0; i < count; ++i) {
    const std::uint64_t nid = view.lookup(root, fmt::format("d{:06}", i)).value();
    std::copy_n(image.begin() + static_cast<std::ptrdiff_t>(shared * kSlotBytes), kInodeBytes,
                image.begin() + static_cast<std::ptrdiff_t>(nid * kSlotBytes));
    store_le<std::uint16_t>(image.data() + nid * kSlotBytes, inode_format(kLayoutPlain));
  }
  return image;
}

}  // namespace

TEST_CASE("F-23: an image whose directories share data is refused before its tree fills the memory") {
  // 2000 directories of 2000 names each from 0.3 MB: a tree of 4 million names, were it built.
  const Bytes image = image_with_shared_directory_data(2000);
  const auto tree = read_layer(image);
  REQUIRE_FALSE(tree);
  CHECK(tree.error().message.find("more data than the image") != std::string::npos);
}

TEST_CASE("F-19: files that claim chunk maps larger than the image are refused before it is written again") {
  Edit edit;
  store_le<std::uint64_t>(edit.inode("/a") + 8, kMaxFileBytes);
  const auto tree = read_layer(edit.finish());
  REQUIRE_FALSE(tree);
  CHECK(tree.error().message.find("more data than the image") != std::string::npos);
}
