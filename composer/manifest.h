// SPDX-License-Identifier: Apache-2.0
// Environment manifests: what `dsec compose -f env.toml` reads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/env.h"

namespace dsec::composer {

// One [[layer]] of a manifest.
struct LayerEntry {
  format::RefName ref;
  std::string from;    // a source ("oci:images/debian"); empty: must be in the store
  std::string target;  // where the tree goes; empty: the root
  std::string where;   // "FILE:LINE", for messages
};

// Overrides of the runtime configuration; what is absent comes from the images.
struct ConfigOverrides {
  std::optional<std::vector<std::string>> entrypoint;
  std::optional<std::vector<std::string>> cmd;
  std::vector<std::pair<std::string, std::string>> env;
  std::optional<std::string> workdir;
  std::optional<std::string> user;
};

// What to compose: from a manifest, or from `--from SOURCE --name NAME`.
struct ComposePlan {
  format::RefName name;
  std::vector<LayerEntry> layers;  // bottom to top
  ConfigOverrides config;
  std::filesystem::path base_dir;  // relative sources are relative to it
};

// Reads and checks a manifest. `invalid` starts with "FILE:LINE:" and names the nearest known key for unknown ones.
Result<ComposePlan> load_manifest(const std::filesystem::path& path);
// The same from text; `file` is for messages and for relative paths.
Result<ComposePlan> parse_manifest(std::string_view text, const std::filesystem::path& file);

}  // namespace dsec::composer
