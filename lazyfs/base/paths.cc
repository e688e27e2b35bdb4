// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

namespace dsec {

namespace {

namespace fs = std::filesystem;

fs::path from_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? fs::path(value) : fs::path();
}

fs::path data_home() {
  if (fs::path dir = from_env("XDG_DATA_HOME"); !dir.empty()) return dir;
  const fs::path home = from_env("HOME");
  return (home.empty() ? fs::path("/") : home) / ".local/share";
}

bool is_root() { return ::geteuid() == 0; }

}  // namespace

fs::path default_store(const fs::path& flag) {
  if (!flag.empty()) return flag;
  if (fs::path dir = from_env("DSEC_STORE"); !dir.empty()) return dir;
  return state_dir() / "store";
}

fs::path runtime_dir() {
  if (fs::path dir = from_env("DSEC_RUNTIME_DIR"); !dir.empty()) return dir;
  if (is_root()) return "/run/dsec";
  if (fs::path dir = from_env("XDG_RUNTIME_DIR"); !dir.empty()) return dir / "dsec";
  return fs::path("/tmp") / ("dsec-" + std::to_string(::geteuid()));
}

fs::path state_dir() {
  if (fs::path dir = from_env("DSEC_STATE_DIR"); !dir.empty()) return dir;
  return is_root() ? fs::path("/var/lib/dsec") : data_home() / "dsec";
}

fs::path sibling_program(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path beside = self.parent_path() / name;
    if (::access(beside.c_str(), X_OK) == 0) return beside;
  }
  return name;
}

}  // namespace dsec
