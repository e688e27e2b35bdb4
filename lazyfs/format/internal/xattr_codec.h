// SPDX-License-Identifier: Apache-2.0
// Xattrs of an inode as they stand in the image: namespaces as numbers, overlayfs names escaped, our own added.
// docs/format.md, rules F-30 to F-39.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "format/erofs.h"
#include "format/layer_tree.h"

namespace dsec::format {

inline constexpr std::string_view kOverlayPrefix = "trusted.overlay.";
inline constexpr std::string_view kEscapedPrefix = "trusted.overlay.overlay.";
inline constexpr std::string_view kMetacopy = "trusted.overlay.metacopy";
inline constexpr std::string_view kRedirect = "trusted.overlay.redirect";
inline constexpr std::string_view kOpaque = "trusted.overlay.opaque";
inline constexpr std::string_view kEscapedWhiteout = "trusted.overlay.overlay.whiteout";
inline constexpr std::string_view kEscapedOpaque = "trusted.overlay.overlay.opaque";
// Marks what escaping added, so that it can be taken away again. An overlayfs above hides both.
inline constexpr std::string_view kDeviceMark = "trusted.overlay.dsec.device";
inline constexpr std::string_view kXwhiteoutsMark = "trusted.overlay.dsec.xwhiteouts";

// An EROFS xattr name: the number of its namespace and the rest. Ordered as in the image.
using XattrKey = std::pair<std::uint8_t, std::string>;
using RawXattrs = std::map<XattrKey, std::string>;

// The key of a full name, nothing for a namespace that EROFS cannot hold. The view is a part of `name`.
std::optional<std::pair<std::uint8_t, std::string_view>> xattr_key(std::string_view name);
// The full name of a key; empty for an unknown namespace.
std::string xattr_name(std::uint8_t index, std::string_view rest);

enum class HoldsDevices { no, yes };  // whether a directory holds a 0:0 character device

// All xattrs that the image stores for an inode.
Result<RawXattrs> raw_xattrs(const Inode& inode, HoldsDevices devices);
// The inline xattr area; empty when there are none.
Result<Bytes> encode_xattrs(const RawXattrs& xattrs);

// One raw xattr as a person sees it, nothing when it is not to be seen. `device` and `xwhiteouts` tell
// whether the inode has the marks of escaping.
std::optional<std::string> visible_name(const std::string& raw_name, XattrView view, bool device, bool xwhiteouts);

// True for a real 0:0 character device, which overlayfs would take for a whiteout.
bool is_device_zero(const Inode& inode);

// "/ab/<62 hex digits>" of an object digest, and back.
std::string object_path(const Digest& digest);
Result<Digest> parse_object_path(std::string_view path);

}  // namespace dsec::format
