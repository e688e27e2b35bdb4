// SPDX-License-Identifier: Apache-2.0
// Settings of lazyfsd: each is declared once, and the help text, the sample file and the parser come from that.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "daemon/merged_images.h"
#include "daemon/metrics_server.h"

namespace dsec::daemon {

enum class EngineChoice { automatic, sync, uring, hf3fs };
enum class CacheChoice { automatic, on, off };
enum class AdviceChoice { automatic, off };
enum class TransportChoice { fuse, io_uring };

struct Settings {
  std::filesystem::path store;      // --store
  std::filesystem::path dir;        // --dir: socket, mounts, slots, log
  std::filesystem::path cache_dir;  // node cache
  int handover_fd = -1;             // from a keeper
  int ready_fd = -1;                // gets one byte when the daemon serves
  std::uint64_t memory_cache_bytes = 0;
  EngineChoice io_engine = EngineChoice::automatic;
  std::string hf3fs_library;
  CacheChoice node_cache = CacheChoice::automatic;
  std::uint64_t cache_quota_bytes = 0;  // 0: as NodeCacheOptions says
  std::uint64_t cache_reserve_bytes = 0;
  MergedRoots merged_roots = MergedRoots::automatic;
  std::uint64_t merged_quota_bytes = 0;
  std::uint64_t fetch_first_bytes = 0;
  std::uint64_t fetch_window_bytes = 0;
  AdviceChoice record = AdviceChoice::automatic;
  AdviceChoice prefetch = AdviceChoice::automatic;
  std::uint64_t prefetch_bandwidth = 0;  // bytes a second; 0: no bound
  std::uint64_t prefetch_threads = 0;
  TransportChoice transport = TransportChoice::fuse;
  std::uint64_t threads = 0;
  std::chrono::milliseconds read_deadline{0};
  std::uint64_t read_ahead_kb = 0;
  std::uint64_t busy_poll_us = 0;
  std::chrono::milliseconds idle_exit{0};
  std::optional<ListenAddress> metrics_listen;
  LogFormat log_format = LogFormat::text;
  std::map<std::string, std::string> of_file;  // what the file said, by name
  std::string file_problem;                    // why what it says is not used (kept_settings.h); empty: it is
};

// From the command line ("--name value" or "--name=value"), over $DSEC_LAZYFSD_CONF or /etc/dsec/lazyfsd.toml when
// there, over the defaults. Paths in the file are absolute ones, and so is every path of the result. `invalid` begins
// with the flag, or with file, line and key, and says what is allowed or what the nearest known name is.
Result<Settings> load_settings(const std::vector<std::string>& arguments);
// The same over another file; none when it is empty.
Result<Settings> load_settings(const std::vector<std::string>& arguments, const std::filesystem::path& file);

// What --help prints, and the sample of a configuration file (conf/lazyfsd.toml), which shows every default.
std::string settings_help();
std::string settings_sample();

}  // namespace dsec::daemon
