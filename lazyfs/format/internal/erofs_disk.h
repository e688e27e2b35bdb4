// SPDX-License-Identifier: Apache-2.0
// On-disk constants of EROFS and of our use of it. Source: the kernel's fs/erofs/erofs_fs.h and fs/erofs/xattr.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dsec::format::disk {

inline constexpr std::size_t kBlockBits = 12;
inline constexpr std::size_t kBlockBytes = std::size_t{1} << kBlockBits;
inline constexpr std::size_t kSlotBytes = 32;  // an inode number (nid) counts slots from the start of the image

// Superblock.
inline constexpr std::size_t kSuperOffset = 1024;
inline constexpr std::size_t kSuperBytes = 128;
inline constexpr std::uint32_t kMagic = 0xE0F5E1E2;
inline constexpr std::uint32_t kCompatChecksum = 0x1;
inline constexpr std::uint32_t kCompatMtime = 0x2;
inline constexpr std::uint32_t kIncompatChunkedFile = 0x4;
inline constexpr std::size_t kRootOffset = kSuperOffset + kSuperBytes;
inline constexpr std::string_view kVolumeName = "dsec1";
inline constexpr std::size_t kVolumeNameBytes = 16;
inline constexpr char kFlagXattrs = 'x';
inline constexpr char kFlagEscapes = 'e';

// Inodes: always the extended form.
inline constexpr std::size_t kInodeBytes = 64;
inline constexpr std::uint16_t kLayoutPlain = 0;
inline constexpr std::uint16_t kLayoutInline = 2;
inline constexpr std::uint16_t kLayoutChunks = 4;
inline constexpr std::uint16_t inode_format(std::uint16_t layout) {
  return static_cast<std::uint16_t>(1 | layout << 1);
}

// A file with content is one hole of the largest chunk size that EROFS knows: 2^(12+31) bytes.
inline constexpr std::uint16_t kChunkFormat = 31;
inline constexpr std::size_t kChunkBits = kBlockBits + kChunkFormat;
inline constexpr std::uint32_t kNullBlock = 0xFFFFFFFF;

// Directory entries.
inline constexpr std::size_t kDirentBytes = 12;
enum DirentType : std::uint8_t { kFtRegular = 1, kFtDirectory, kFtChar, kFtBlock, kFtFifo, kFtSocket, kFtSymlink };

// Xattrs.
inline constexpr std::size_t kXattrHeaderBytes = 12;
inline constexpr std::size_t kXattrEntryBytes = 4;

inline constexpr std::size_t align_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

}  // namespace dsec::format::disk
