// SPDX-License-Identifier: Apache-2.0
// Settings of lazyfsd: each is declared once, and the help text, the sample file and the parser come from that.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"

namespace dsec::daemon {

struct Settings {
  std::filesystem::path store;      // --store
  std::filesystem::path dir;        // --dir: socket, mounts, slots, log
  std::filesystem::path cache_dir;  // node cache
  int ready_fd = -1;                // gets one byte when the daemon serves
  std::uint64_t memory_cache_bytes = 0;
  std::uint64_t threads = 0;
  std::chrono::milliseconds read_deadline{0};
  std::uint64_t read_ahead_kb = 0;
  std::chrono::milliseconds idle_exit{0};
  LogFormat log_format = LogFormat::text;
};

// From the command line ("--name value" or "--name=value"), over $DSEC_LAZYFSD_CONF or /etc/dsec/lazyfsd.toml when
// there, over the defaults. `invalid` names the flag, or the file and line, and the nearest known name.
Result<Settings> load_settings(const std::vector<std::string>& arguments);

// What --help prints, and the sample of a configuration file (conf/lazyfsd.toml), which shows every default.
std::string settings_help();
std::string settings_sample();

}  // namespace dsec::daemon
