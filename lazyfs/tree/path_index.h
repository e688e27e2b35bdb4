// SPDX-License-Identifier: Apache-2.0
// From inodes of a layer back to paths, for diagnostics: images only know the way down.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "store/layer_cache.h"

namespace dsec::tree {

// All names of one layer: about 80 bytes for each, and a walk over the whole image to make it. Keeps the layer.
// Immutable; thread-safe.
class PathIndex {
 public:
  static constexpr std::uint64_t kMaxInodes = std::uint64_t{1} << 19;

  // `unsupported` for a layer with more than kMaxInodes inodes.
  static Result<PathIndex> build(std::shared_ptr<const store::Layer> layer);

  // "/usr/bin/python3"; of a hard-linked file one of its paths. Empty when the layer has no such inode.
  [[nodiscard]] std::string path(std::uint64_t nid) const;

 private:
  struct Name {
    std::uint64_t parent = 0;
    std::string_view name;  // in the image
  };
  explicit PathIndex(std::shared_ptr<const store::Layer> layer) : layer_(std::move(layer)) {}

  std::shared_ptr<const store::Layer> layer_;
  std::unordered_map<std::uint64_t, Name> names_;
};

}  // namespace dsec::tree
