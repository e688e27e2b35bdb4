// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/whiteout_name.h"

namespace dsec::composer {

namespace {

constexpr std::string_view kPrefix = ".wh.";
constexpr std::string_view kMetaPrefix = ".wh..wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";

}  // namespace

Result<ClassifiedName> classify_name(std::string_view path) {
  if (path.find(kPrefix) == std::string_view::npos) return ClassifiedName{};
  while (path.ends_with('/')) path.remove_suffix(1);
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string_view name = path.substr(start, slash - start);
    const std::string_view directory = path.substr(0, start);
    const bool last = slash == path.size();
    start = slash + 1;
    if (!name.starts_with(kPrefix)) continue;
    if (last && name == kOpaque) {
      return ClassifiedName{NameKind::opaque, directory.empty() ? "." : std::string(directory)};
    }
    if (name.starts_with(kMetaPrefix)) return ClassifiedName{NameKind::ignored, {}};
    const std::string_view removed = name.substr(kPrefix.size());
    if (removed.empty() || removed == "." || removed == "..") {
      return fail(ErrorCode::invalid, "a whiteout of \"{}\", which is no name", removed);
    }
    if (!last) return fail(ErrorCode::invalid, "an entry inside a whiteout");
    return ClassifiedName{NameKind::whiteout, std::string(directory).append(removed)};
  }
  return ClassifiedName{};
}

}  // namespace dsec::composer
