// SPDX-License-Identifier: Apache-2.0
#include "control/complaint.h"

#include <fcntl.h>

#include <algorithm>

#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"

namespace dsec::control {

namespace {

constexpr std::string_view kDaemon = "lazyfsd";
constexpr std::string_view kKeeper = "lazyfs-keeper";

std::string tail_of(const std::filesystem::path& log, std::uint64_t from) {
  const auto file = open_file(log, O_RDONLY | O_NONBLOCK);
  const auto facts = file ? stat_fd(*file) : tl::unexpected(file.error());
  if (!facts || !S_ISREG(facts->st_mode)) return {};
  const auto size = static_cast<std::uint64_t>(facts->st_size);
  if (size < from) from = 0;  // it was rotated
  from = std::max(from, size - std::min<std::uint64_t>(size, kMaxLookedAt));
  Bytes bytes(static_cast<std::size_t>(size - from));
  if (!pread_exact(*file, bytes, from)) return {};
  return std::string(as_text(bytes));
}

std::string of_event(std::string_view event, const std::string& reason) {
  if (reason.empty() || event == "failed") return reason.empty() ? std::string(event) : reason;
  return fmt::format("{}: {}", event, reason);
}

// `EVENT NAME=VALUE ... reason=VALUE`, as base/log.h writes it.
std::string of_fields(std::string_view text) {
  constexpr std::string_view kReason = " reason=";
  const std::string_view event = text.substr(0, text.find(' '));
  const std::size_t at = text.find(kReason);
  if (at == std::string_view::npos) return std::string(text);
  std::string_view value = text.substr(at + kReason.size());
  const bool quoted = starts_with(value, "\"");
  if (quoted) value.remove_prefix(1);
  value = value.substr(0, value.find(quoted ? '"' : ' '));
  return of_event(event, unescaped(value).value_or(std::string(value)));
}

// What a line of the log says is an error of `program`; empty when it says no such thing.
std::string error_in(std::string_view line, std::string_view program) {
  if (starts_with(line, "{")) {
    const auto parsed = parse_json(line, "log line");
    const auto field = [&](const char* key) { return parsed ? json_text(*parsed, key).value_or("") : std::string(); };
    return field("level") == "error" && field("program") == program ? of_event(field("event"), field("reason")) : "";
  }
  const std::string before_log = fmt::format("{}: ", program);  // settings are not read yet
  if (starts_with(line, before_log)) return std::string(line.substr(before_log.size()));
  const std::string mark = fmt::format(" error {}: ", program);
  const std::size_t at = line.find(mark);
  return at == std::string_view::npos ? std::string() : of_fields(line.substr(at + mark.size()));
}

// Quotes and backslashes stay: messages have their own.
std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\"\\", at), text.size());
    shown += escaped(text.substr(at, end - at));
    if (end < text.size()) shown += text[end];
    at = end + 1;
  }
  return shown;
}

}  // namespace

std::string last_complaint(const std::filesystem::path& log, std::uint64_t from) {
  const std::string text = tail_of(log, from);
  const auto lines = split(text, '\n');
  for (const std::string_view program : {kDaemon, kKeeper}) {
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
      const std::string found = error_in(*line, program);
      if (found.empty()) continue;
      return printable(found.substr(0, kMaxShown)) + (found.size() > kMaxShown ? "..." : "");
    }
  }
  return {};
}

}  // namespace dsec::control
