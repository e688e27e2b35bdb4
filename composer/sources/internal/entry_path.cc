// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/entry_path.h"

#include "base/text.h"
#include "format/layer_tree.h"

namespace dsec::composer {

Result<void> split_entry_path(std::string_view path, std::vector<std::string_view>& out) {
  if (path.empty()) return fail(ErrorCode::invalid, "the name is empty");
  if (path.size() > kMaxPathBytes) {
    return fail(ErrorCode::invalid, "the path has {} bytes, at most {} are possible", path.size(), kMaxPathBytes);
  }
  if (path.find('\0') != std::string_view::npos) return fail(ErrorCode::invalid, "the name holds a NUL");
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (name.empty() || name == ".") continue;
    if (name == "..") return fail(ErrorCode::invalid, "\"..\" in a name could lead out of the tree");
    if (name.size() > format::kMaxNameBytes) {
      return fail(ErrorCode::invalid, "a component of the name has {} bytes, at most {} are possible", name.size(),
                  format::kMaxNameBytes);
    }
    out.push_back(name);
  }
  return {};
}

std::string shown(std::string_view path) {
  constexpr std::size_t kShownBytes = 300;
  if (path.size() <= kShownBytes) return escaped(path);
  return escaped(path.substr(0, kShownBytes)) + "...";
}

}  // namespace dsec::composer
