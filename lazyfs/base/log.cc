// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>

#include "base/text.h"

namespace dsec {

namespace {

struct LogSettings {
  std::string program = "dsec";
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
};

LogSettings& settings() {
  static LogSettings instance;
  return instance;
}

constexpr const char* kLevelNames[] = {"debug", "info", "warn", "error"};

std::string timestamp() {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  struct tm utc {};
  ::gmtime_r(&now.tv_sec, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text, now.tv_nsec / 1000000);
}

std::string text_line(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  std::string line =
      fmt::format("{} {:5} {}: {}", timestamp(), kLevelNames[static_cast<int>(level)], settings().program, event);
  for (const auto& [name, value] : fields) line += fmt::format(" {}={}", name, quoted_if_needed(value));
  return line + "\n";
}

std::string json_line(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","program":{},"event":{})", timestamp(),
                  kLevelNames[static_cast<int>(level)], json_string(settings().program), json_string(event));
  for (const auto& [name, value] : fields) line += fmt::format(",{}:{}", json_string(name), json_string(value));
  return line + "}\n";
}

}  // namespace

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (level < settings().level) return;
  const std::string line =
      settings().format == LogFormat::json ? json_line(level, event, fields) : text_line(level, event, fields);
  // A log that cannot be written must not stop the work; there is nobody left to tell.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

void configure_log(std::string_view program, LogLevel level, LogFormat format) {
  settings() = {std::string(program), level, format};
  if (const char* name = std::getenv("DSEC_LOG")) {
    for (int i = 0; i < 4; ++i) {
      if (std::string_view(name) == kLevelNames[i]) settings().level = static_cast<LogLevel>(i);
    }
  }
  if (const char* name = std::getenv("DSEC_LOG_FORMAT")) {
    settings().format = std::string_view(name) == "json" ? LogFormat::json : LogFormat::text;
  }
}

}  // namespace dsec
