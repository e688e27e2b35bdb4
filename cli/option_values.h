// SPDX-License-Identifier: Apache-2.0
// Values of options, as people write them. Each fails with `invalid` and says what is allowed: parse.cc asks before
// anything is done, so that a wrong one is a usage error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "launcher/sandbox.h"

namespace dsec::cli {

// A size that is not 0.
Result<std::uint64_t> parse_some_bytes(const std::string& text);
// One that a sandbox can be limited to: at least kMinMemoryBytes.
Result<std::uint64_t> parse_memory_limit(const std::string& text);
// A duration that is not 0.
Result<std::chrono::milliseconds> parse_some_time(const std::string& text);
// Processors, 0.01 to 4096.
Result<double> parse_cpus(const std::string& text);
// A whole number without sign.
Result<std::uint64_t> parse_count(const std::string& text, std::uint64_t low, std::uint64_t high);
// SOURCE:/TARGET[:ro|:rw]. Whether the source exists is not looked at.
Result<Volume> parse_volume(const std::string& text);
// NAME=VALUE or NAME.
Result<void> check_variable(const std::string& text);

}  // namespace dsec::cli
