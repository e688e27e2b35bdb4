// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "base/text.h"

namespace dsec {

namespace {

struct LogSettings {
  std::string program = "dsec";
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
  bool limits_repeated = false;
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

using Fields = std::vector<LogField>;

std::string text_line(LogLevel level, std::string_view event, const Fields& fields) {
  std::string line =
      fmt::format("{} {:5} {}: {}", timestamp(), kLevelNames[static_cast<int>(level)], settings().program, event);
  for (const auto& [name, value] : fields) line += fmt::format(" {}={}", name, quoted_if_needed(value));
  return line + "\n";
}

std::string json_line(LogLevel level, std::string_view event, const Fields& fields) {
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","program":{},"event":{})", timestamp(),
                  kLevelNames[static_cast<int>(level)], json_string(settings().program), json_string(event));
  for (const auto& [name, value] : fields) line += fmt::format(",{}:{}", json_string(name), json_string(value));
  return line + "}\n";
}

void write_line(LogLevel level, std::string_view event, const Fields& fields) {
  const std::string line =
      settings().format == LogFormat::json ? json_line(level, event, fields) : text_line(level, event, fields);
  // A log that cannot be written must not stop the work; there is nobody left to tell.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

// What was said lately. Events are words of the program: there are not many.
class Repeats {
 public:
  struct Held {
    LogLevel level;
    std::string event;
    std::uint64_t lines;
  };

  // Whether a line may be written; `told` gets what was held back in windows that are over.
  bool admit(LogLevel level, std::string_view event, std::vector<Held>& told) {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    if (now >= next_look_) tell_over(now, told);
    if (level < LogLevel::warn) return true;
    Window& window = windows_[std::string(event)];
    if (now - window.since >= kLogWindow) window = {now, 0, 0, level};
    if (window.written < kLogBurst) {
      ++window.written;
      return true;
    }
    if (window.held++ == 0) next_look_ = std::min(next_look_, window.since + kLogWindow);
    return false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Window {
    Clock::time_point since{};
    unsigned written = 0;
    std::uint64_t held = 0;
    LogLevel level = LogLevel::warn;
  };

  void tell_over(Clock::time_point now, std::vector<Held>& told) {
    next_look_ = Clock::time_point::max();
    for (auto& [event, window] : windows_) {
      if (window.held == 0) continue;
      if (now - window.since < kLogWindow) {
        next_look_ = std::min(next_look_, window.since + kLogWindow);
        continue;
      }
      told.push_back({window.level, event, window.held});
      window.held = 0;
    }
  }

  std::mutex mutex_;
  std::map<std::string, Window> windows_;
  Clock::time_point next_look_ = Clock::time_point::max();
};

bool is_one_file(const struct stat& a, const struct stat& b) { return a.st_ino == b.st_ino && a.st_dev == b.st_dev; }

Repeats& repeats() {
  static Repeats instance;
  return instance;
}

}  // namespace

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (level < settings().level) return;
  bool admitted = true;
  std::vector<Repeats::Held> told;
  if (settings().limits_repeated) admitted = repeats().admit(level, event, told);
  for (const auto& held : told) write_line(held.level, held.event, {{"more", std::to_string(held.lines)}});
  if (admitted) write_line(level, event, fields);
}

void limit_repeated_lines() { settings().limits_repeated = true; }

LogFile::LogFile(std::filesystem::path path, std::uint64_t limit_bytes)
    : path_(std::move(path)), limit_bytes_(limit_bytes) {}

void LogFile::tend(Role role) {
  struct stat ours {};
  struct stat there {};
  if (::fstat(STDERR_FILENO, &ours) != 0 || !S_ISREG(ours.st_mode)) return;
  const bool exists = ::stat(path_.c_str(), &there) == 0;
  const bool is_same = exists && is_one_file(there, ours);
  const std::string old = fmt::format("{}.old", path_.native());
  struct stat before {};
  is_ours_ = is_ours_ || is_same || (::stat(old.c_str(), &before) == 0 && is_one_file(before, ours));
  if (!is_ours_) return;
  std::error_code error;
  if (is_same && (role == Role::follows || static_cast<std::uint64_t>(ours.st_size) <= limit_bytes_)) return;
  if (is_same) std::filesystem::rename(path_, old, error);
  if (error || (!is_same && !exists && role == Role::follows)) return;
  const auto file = open_file(path_, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file) ::dup3(file->get(), STDERR_FILENO, 0);
}

void configure_log(std::string_view program, LogLevel level, LogFormat format) {
  settings() = {std::string(program), level, format, false};
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
