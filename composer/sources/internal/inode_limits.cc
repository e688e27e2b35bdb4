// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/inode_limits.h"

#include "composer/sources/internal/entry_path.h"

namespace dsec::composer {

using format::FileType;
using format::Inode;

namespace {

constexpr std::size_t kMaxXattrNameBytes = 255;  // XATTR_NAME_MAX
constexpr std::size_t kXattrOverheadBytes = 8;   // of one attribute in an image: header and padding

Result<void> check_xattrs(const format::Xattrs& xattrs) {
  std::size_t total = 0;
  for (const auto& [name, value] : xattrs) {
    if (name.empty() || name.size() > kMaxXattrNameBytes || name.find('\0') != std::string::npos) {
      return fail(ErrorCode::invalid, "xattr \"{}\": the name must have 1 to {} bytes and no NUL", shown(name),
                  kMaxXattrNameBytes);
    }
    if (value.size() > format::kMaxXattrValueBytes) {
      return fail(ErrorCode::invalid, "xattr \"{}\": the value has {} bytes, at most {} are possible", shown(name),
                  value.size(), format::kMaxXattrValueBytes);
    }
    total += name.size() + value.size() + kXattrOverheadBytes;
  }
  if (total > format::kMaxXattrBytes) {
    return fail(ErrorCode::invalid, "its xattrs have {} bytes, at most {} are possible", total, format::kMaxXattrBytes);
  }
  return {};
}

Result<void> check_symlink(const Inode& inode) {
  if (inode.target.empty() || inode.target.size() > format::kMaxSymlinkBytes) {
    return fail(ErrorCode::invalid, "a symlink's target of {} bytes; 1 to {} are possible", inode.target.size(),
                format::kMaxSymlinkBytes);
  }
  if (inode.target.find('\0') != std::string::npos) return fail(ErrorCode::invalid, "a symlink's target with a NUL");
  return {};
}

Result<void> check_device(const Inode& inode) {
  if (inode.major <= format::kMaxMajor && inode.minor <= format::kMaxMinor) return {};
  return fail(ErrorCode::invalid, "device {}:{}; numbers up to {}:{} are possible", inode.major, inode.minor,
              format::kMaxMajor, format::kMaxMinor);
}

}  // namespace

Result<void> check_inode(const Inode& inode) {
  switch (inode.type) {
    case FileType::symlink: TRY(check_symlink(inode)); break;
    case FileType::char_device:
    case FileType::block_device: TRY(check_device(inode)); break;
    case FileType::whiteout: return fail(ErrorCode::invalid, "a whiteout is no entry");
    default: break;
  }
  if (inode.mode > 07777 || inode.mtime.nsec >= 1'000'000'000) {
    return fail(ErrorCode::invalid, "mode {:o} or {} ns are out of range", inode.mode, inode.mtime.nsec);
  }
  if (inode.size > format::kMaxFileBytes) {
    return fail(ErrorCode::invalid, "a size of {} bytes; at most {} are possible", inode.size, format::kMaxFileBytes);
  }
  return check_xattrs(inode.xattrs);
}

}  // namespace dsec::composer
