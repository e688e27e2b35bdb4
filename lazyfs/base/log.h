// SPDX-License-Identifier: Apache-2.0
// Structured log lines on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace dsec {

enum class LogLevel { debug, info, warn, error };
enum class LogFormat { text, json };

using LogField = std::pair<std::string_view, std::string>;

// Writes one line: time, level, program, event, fields. One write(2) a line, so lines of several threads and processes
// do not mix. `event` is a short stable word ("chunk_corrupt"), fields carry the facts. Thread-safe.
//   log(LogLevel::warn, "chunk_corrupt", {{"chunk", digest.hex()}, {"pack", pack.hex()}});
void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// From now on, of warnings and errors with the same event at most kLogBurst lines in kLogWindow are written; how many
// more there were is the field `more` of a line with that event after it. For programs that live long: a store that is
// away makes one line for each read. Call before threads.
void limit_repeated_lines();
inline constexpr unsigned kLogBurst = 20;
inline constexpr std::chrono::seconds kLogWindow{10};

// Keeps a log file that stderr goes to below some size. When it has more than `limit_bytes` it becomes PATH.old, in
// place of the one before, and stderr a new file; no line is lost. Of the processes that share it one rotates, the
// others follow: they take the new file when there is one. Call from time to time, from one thread; does nothing when
// stderr is something else.
class LogFile {
 public:
  enum class Role { rotates, follows };
  explicit LogFile(std::filesystem::path path, std::uint64_t limit_bytes = kMaxLogBytes);
  void tend(Role role);
  static constexpr std::uint64_t kMaxLogBytes = 8 << 20;

 private:
  std::filesystem::path path_;
  std::uint64_t limit_bytes_;
  bool is_ours_ = false;
};

// Call once at start-up, before threads. Default: text, level info, program "dsec". DSEC_LOG=debug|info|warn|error and
// DSEC_LOG_FORMAT=text|json override what is set here.
void configure_log(std::string_view program, LogLevel level, LogFormat format);

}  // namespace dsec
