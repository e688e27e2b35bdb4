// SPDX-License-Identifier: Apache-2.0
// Whole files from a store that is far away.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/bytes.h"
#include "base/result.h"

namespace dsec::store {

// A whole file of at most `limit` bytes; a larger one is `invalid`, one that becomes shorter meanwhile `corrupt`. A
// large one is read in several places at once: one reader of a network file system has about one read-ahead window
// (128 KiB) for each round trip, whatever the link could carry.
Result<Bytes> read_wide(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace dsec::store
