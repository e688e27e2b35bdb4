// SPDX-License-Identifier: Apache-2.0
// One function per kind of source; source.cc has the table.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "composer/sources/source.h"

namespace dsec::composer {

// `rest` is the spec without its scheme, made absolute; `spec` is what the user wrote, for messages.
struct SourceSpec {
  std::string spec;
  std::string rest;
};

Result<std::unique_ptr<Source>> open_oci_layout(const SourceSpec& spec);
Result<std::unique_ptr<Source>> open_docker_archive(const SourceSpec& spec);
Result<std::unique_ptr<Source>> open_tar(const SourceSpec& spec);
Result<std::unique_ptr<Source>> open_dir(const SourceSpec& spec);

// Splits "PATH[:REF]": the whole when it exists, else at the first colon that has an existing path before it.
// `not_found` when there is none.
struct PathAndRef {
  std::filesystem::path path;
  std::string ref;  // empty: none
};
Result<PathAndRef> split_ref(const std::string& rest);

}  // namespace dsec::composer
