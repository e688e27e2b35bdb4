// SPDX-License-Identifier: Apache-2.0
// What a lazyfsd that did not start said of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace dsec::control {

// The reason in the last error that was appended to a log since it had `from` bytes: of lazyfsd if it gave one, else of
// its keeper. In one line of printable text, of the last kMaxLookedAt bytes, and cut after kMaxShown. Empty when there
// is none, or no log.
std::string last_complaint(const std::filesystem::path& log, std::uint64_t from);
inline constexpr std::size_t kMaxLookedAt = 64 << 10;
inline constexpr std::size_t kMaxShown = 400;

}  // namespace dsec::control
