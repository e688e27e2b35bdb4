// SPDX-License-Identifier: Apache-2.0
#include "format/internal/xattr_codec.h"

#include <array>

#include "base/text.h"
#include "format/internal/erofs_disk.h"

namespace dsec::format {

namespace {

struct Namespace {
  std::uint8_t index;
  std::string_view prefix;
  bool whole;  // the prefix is the whole name
};

constexpr std::array<Namespace, 5> kNamespaces{{{1, "user.", false},
                                                {2, "system.posix_acl_access", true},
                                                {3, "system.posix_acl_default", true},
                                                {4, "trusted.", false},
                                                {6, "security.", false}}};

}  // namespace

std::optional<std::pair<std::uint8_t, std::string_view>> xattr_key(std::string_view name) {
  for (const Namespace& space : kNamespaces) {
    if (space.whole ? name == space.prefix : starts_with(name, space.prefix) && name.size() > space.prefix.size()) {
      return std::pair(space.index, name.substr(space.prefix.size()));
    }
  }
  return std::nullopt;
}

std::string xattr_name(std::uint8_t index, std::string_view rest) {
  for (const Namespace& space : kNamespaces) {
    if (space.index == index && space.whole == rest.empty()) return std::string(space.prefix).append(rest);
  }
  return {};
}

bool is_device_zero(const Inode& inode) {
  return inode.type == FileType::char_device && inode.major == 0 && inode.minor == 0;
}

namespace {

Result<void> put(RawXattrs& raw, std::string_view name, std::string value) {
  const auto key = xattr_key(name);
  if (!key || key->second.size() > kMaxNameBytes || key->second.find('\0') != std::string_view::npos) {
    return fail(ErrorCode::invalid, "the extended attribute \"{}\" cannot be stored", escaped(name));
  }
  if (value.size() > kMaxXattrValueBytes) {
    return fail(ErrorCode::invalid, "the extended attribute \"{}\" has {} bytes, at most {} are possible",
                escaped(name), value.size(), kMaxXattrValueBytes);
  }
  if (!raw.emplace(XattrKey(key->first, key->second), std::move(value)).second) {
    return fail(ErrorCode::invalid, "the extended attribute \"{}\" cannot be told from our own", escaped(name));
  }
  return {};
}

std::string escaped_name(const std::string& name) {
  if (!starts_with(name, kOverlayPrefix)) return name;
  return std::string(kEscapedPrefix).append(name.substr(kOverlayPrefix.size()));
}

}  // namespace

Result<RawXattrs> raw_xattrs(const Inode& inode, HoldsDevices devices) {
  RawXattrs raw;
  for (const auto& [name, value] : inode.xattrs) TRY(put(raw, escaped_name(name), value));
  if (inode.type == FileType::regular && inode.size > 0) {
    TRY(put(raw, kMetacopy, ""));
    TRY(put(raw, kRedirect, object_path(inode.object)));
  }
  if (inode.opaque) TRY(put(raw, kOpaque, "y"));
  if (is_device_zero(inode)) {
    TRY(put(raw, kEscapedWhiteout, ""));
    TRY(put(raw, kDeviceMark, ""));
  }
  const auto opaque_key = *xattr_key(kEscapedOpaque);
  const bool has_own_opaque = raw.count(XattrKey(opaque_key.first, opaque_key.second)) > 0;
  if (devices == HoldsDevices::yes && !has_own_opaque) {
    TRY(put(raw, kEscapedOpaque, "x"));
    TRY(put(raw, kXwhiteoutsMark, ""));
  }
  return raw;
}

Result<Bytes> encode_xattrs(const RawXattrs& xattrs) {
  Bytes area;
  if (xattrs.empty()) return area;
  ByteWriter writer(area);
  writer.put_zeros(disk::kXattrHeaderBytes);  // no name filter, no shared xattrs
  for (const auto& [key, value] : xattrs) {
    writer.put(static_cast<std::uint8_t>(key.second.size()));
    writer.put(key.first);
    writer.put(static_cast<std::uint16_t>(value.size()));
    writer.put_bytes(as_bytes(key.second));
    writer.put_bytes(as_bytes(value));
    writer.align(4);
  }
  if (area.size() > kMaxXattrBytes) {
    return fail(ErrorCode::invalid, "the extended attributes take {} bytes, at most {} are possible", area.size(),
                kMaxXattrBytes);
  }
  return area;
}

std::optional<std::string> visible_name(const std::string& raw_name, XattrView view, bool device, bool xwhiteouts) {
  if (!starts_with(raw_name, kOverlayPrefix)) return raw_name;
  if (!starts_with(raw_name, kEscapedPrefix)) return std::nullopt;  // overlayfs metadata of the image itself
  if (view == XattrView::overlay) return raw_name;
  if ((device && raw_name == kEscapedWhiteout) || (xwhiteouts && raw_name == kEscapedOpaque)) return std::nullopt;
  return std::string(kOverlayPrefix).append(raw_name.substr(kEscapedPrefix.size()));
}

std::string object_path(const Digest& digest) {
  const std::string hex = digest.hex();
  return fmt::format("/{}/{}", hex.substr(0, 2), hex.substr(2));
}

Result<Digest> parse_object_path(std::string_view path) {
  if (path.size() != Digest::kHexSize + 2 || path[0] != '/' || path[3] != '/') {
    return fail(ErrorCode::corrupt, "\"{}\" is no object path", escaped(path));
  }
  return Digest::parse(std::string(path.substr(1, 2)).append(path.substr(4)));
}

}  // namespace dsec::format
