// SPDX-License-Identifier: Apache-2.0
// What each verb is told on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsec::cli {

struct CommonArgs {
  std::string store;  // --store; empty: the default
  bool json = false;  // --json: one document on standard output instead of text
};

struct ComposeArgs {
  CommonArgs common;
  std::string manifest;  // -f
  std::string from;
  std::string name;
  std::string target;
  unsigned jobs = 0;
  bool strict = false;
  bool squash = false;
  bool high_compression = false;
};

struct NameArgs {  // env inspect|rm, layer inspect
  CommonArgs common;
  std::vector<std::string> names;
};

struct MountArgs {
  CommonArgs common;
  std::string rootfs_mode = "auto";
  std::string env;
  std::string directory;
  bool eager = false;
};

struct PrefetchArgs {
  CommonArgs common;
  std::string env;
  bool all = false;
};

struct RunArgs {
  CommonArgs common;  // json: the record goes to standard error, after the command's output
  std::string json_file;
  std::string env;
  std::vector<std::string> command;
  std::optional<double> cpus;
  std::string memory;
  std::string shm_size;
  std::optional<std::uint64_t> pids;
  std::vector<std::string> variables;
  std::vector<std::string> volumes;
  std::string workdir;
  std::string user;
  std::string hostname;
  std::string timeout;
  std::string network = "none";
  std::string rootfs_mode = "auto";
  std::string name;
  bool keep = false;
  bool tty = false;
  bool record = false;
  bool eager = false;
};

struct RemoveArgs {
  CommonArgs common;
  std::vector<std::string> names;
  bool force = false;
};

struct EnvArgs {  // fs stats|trace
  CommonArgs common;
  std::string env;
};

struct EvictArgs {
  CommonArgs common;
  std::string env;
  bool all = false;
  std::string bytes;
};

struct TopArgs {
  CommonArgs common;
  std::uint64_t iterations = 0;  // 0: until Ctrl-C
};

struct InfoArgs {
  CommonArgs common;
  std::string path;
};

struct StopArgs {
  CommonArgs common;
  bool force = false;
};

}  // namespace dsec::cli
