// SPDX-License-Identifier: Apache-2.0
// The configuration documents of OCI and docker images.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/json.h"
#include "base/result.h"
#include "composer/sources/source.h"

namespace dsec::composer {

inline constexpr std::size_t kMaxLayers = 1024;                             // of one image; more is refused
inline constexpr std::uint64_t kMaxDocumentBytes = std::uint64_t{8} << 20;  // of an index, manifest or config

struct ImageDocument {
  ImageConfig config;
  std::string os;
  std::string architecture;
  std::vector<Digest> diff_ids;  // bottom first
};

// Parses a configuration (OCI image specification, config.md; docker's is the same where we look). `invalid` names
// `what` and the member; absent members are empty. Strings with NUL are refused: they become argv and environment.
Result<ImageDocument> parse_image_document(std::string_view text, std::string_view what);

// The digest in "sha256:<64 hex digits>". `unsupported` for other algorithms, `invalid` for everything else: what this
// accepts is safe as a file name.
Result<Digest> parse_image_digest(std::string_view text);

}  // namespace dsec::composer
