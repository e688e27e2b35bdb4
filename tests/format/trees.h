// SPDX-License-Identifier: Apache-2.0
// Layer trees for tests, and files next to the tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "format/layer_tree.h"

namespace dsec::format::test {

// A tree of about `names` names that is different for every seed and uses every type and attribute, awkward names,
// hard links, whiteouts, and xattrs that need escaping.
LayerTree random_tree(std::uint64_t seed, std::size_t names);

// The tree of tests/format/golden/NAME.dump.
LayerTree golden_tree(std::string_view name);

// tests/format/golden/FILE.
std::filesystem::path golden_path(std::string_view file);
std::string read_text(const std::filesystem::path& path);

// Fails the running test unless `text` is what golden/FILE holds. With DSEC_ACCEPT=1 the file is written instead.
void check_golden(std::string_view file, std::string_view text);

// 32 bytes a line, for golden files that a review can read.
std::string hex_lines(ByteView bytes);

}  // namespace dsec::format::test
