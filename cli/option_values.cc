// SPDX-License-Identifier: Apache-2.0
#include "cli/option_values.h"

#include <charconv>
#include <filesystem>
#include <vector>

#include "base/text.h"

namespace dsec::cli {

namespace {

// All of `text` as a number.
template <typename Number>
bool is_number(const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end;
}

}  // namespace

Result<std::uint64_t> parse_some_bytes(const std::string& text) {
  const std::uint64_t bytes = TRY(parse_size(text));
  if (bytes == 0) return fail(ErrorCode::invalid, "\"{}\" is nothing: it must be at least one byte", escaped(text));
  return bytes;
}

Result<std::uint64_t> parse_memory_limit(const std::string& text) {
  const std::uint64_t bytes = TRY(parse_size(text));
  if (bytes < kMinMemoryBytes || bytes > INT64_MAX) {
    return fail(ErrorCode::invalid, "\"{}\" is no limit of memory: it must be at least {}", escaped(text),
                human_size(kMinMemoryBytes));
  }
  return bytes;
}

Result<std::chrono::milliseconds> parse_some_time(const std::string& text) {
  const auto time = TRY(parse_duration(text));
  if (time.count() == 0) return fail(ErrorCode::invalid, "\"{}\" is no time at all", escaped(text));
  return time;
}

Result<double> parse_cpus(const std::string& text) {
  double cpus = 0;
  if (!is_number(text, cpus) || !(cpus >= 0.01 && cpus <= 4096)) {  // so that NaN is none
    return fail(ErrorCode::invalid, "\"{}\" is no number from 0.01 to 4096", escaped(text));
  }
  return cpus;
}

Result<std::uint64_t> parse_count(const std::string& text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t count = 0;
  if (!is_number(text, count) || count < low || count > high) {
    return fail(ErrorCode::invalid, "\"{}\" is no number from {} to {}", escaped(text), low, high);
  }
  return count;
}

Result<Volume> parse_volume(const std::string& text) {
  std::vector<std::string_view> parts = split(text, ':');
  Volume volume;
  if (parts.size() == 3 && (parts[2] == "ro" || parts[2] == "rw")) {
    volume.access = parts[2] == "ro" ? Volume::Access::read_only : Volume::Access::read_write;
    parts.pop_back();
  }
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty() || parts[1].front() != '/') {
    return fail(ErrorCode::invalid, "\"{}\" is no volume: write SOURCE:/TARGET or SOURCE:/TARGET:ro", escaped(text));
  }
  volume.source = std::filesystem::absolute(parts[0]);
  volume.target = parts[1];
  return volume;
}

Result<void> check_variable(const std::string& text) {
  if (text.empty() || text[0] == '=') return fail(ErrorCode::invalid, "\"{}\" has no name", escaped(text));
  return {};
}

}  // namespace dsec::cli
