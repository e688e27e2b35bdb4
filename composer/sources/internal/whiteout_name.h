// SPDX-License-Identifier: Apache-2.0
// Names with a meaning in the layers of OCI and docker images.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dsec::composer {

enum class NameKind {
  plain,
  whiteout,  // "dir/.wh.name": remove dir/name
  opaque,    // "dir/.wh..wh..opq": remove what is in dir
  ignored,   // "dir/.wh..wh.*" and what is below: bookkeeping of AUFS
};

struct ClassifiedName {
  NameKind kind = NameKind::plain;
  std::string path;  // whiteout: of what is removed; opaque: of the directory
};

// Sorts a name by the rules of the OCI image specification, layer.md, section "Whiteouts". `invalid` for ".wh." with
// no name, "." or ".." behind it, and for an entry inside a whiteout.
Result<ClassifiedName> classify_name(std::string_view path);

}  // namespace dsec::composer
