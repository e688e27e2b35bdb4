// SPDX-License-Identifier: Apache-2.0
// The names of archive entries as lists of components.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsec::composer {

inline constexpr std::size_t kMaxPathBytes = 4096;  // PATH_MAX; longer paths cannot be opened by name anyway

// Appends the components of an entry's name to `out`. A leading "/", "." components and repeated slashes carry no
// meaning and are dropped, so the root gives none. `invalid` for an empty name, a ".." anywhere, a NUL, a component of
// more than 255 bytes or a path of more than kMaxPathBytes. The views point into `path`.
Result<void> split_entry_path(std::string_view path, std::vector<std::string_view>& out);

// An entry's name for messages: escaped, and cut when it is very long.
std::string shown(std::string_view path);

}  // namespace dsec::composer
