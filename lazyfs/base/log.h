// SPDX-License-Identifier: Apache-2.0
// Structured log lines on stderr.
#pragma once

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

// Call once at start-up, before threads. Default: text, level info, program "dsec". DSEC_LOG=debug|info|warn|error and
// DSEC_LOG_FORMAT=text|json override what is set here.
void configure_log(std::string_view program, LogLevel level, LogFormat format);

}  // namespace dsec
