// SPDX-License-Identifier: Apache-2.0
#include "daemon/kept_settings.h"

#include <system_error>

#include "base/atomic_file.h"
#include "base/json.h"
#include "base/log.h"

namespace dsec::daemon {

namespace fs = std::filesystem;

namespace {

// The keeper removes it when it begins anew (control/handover.h): one that is there is a predecessor's.
fs::path kept_in(const fs::path& dir) { return dir / "lazyfsd.toml"; }

}  // namespace

Result<Settings> choose_settings(const std::vector<std::string>& arguments) {
  auto settings = load_settings(arguments);
  if (settings) return settings;
  const auto alone = load_settings(arguments, fs::path());
  if (!alone || alone->handover_fd < 0) return settings;
  std::error_code error;
  if (!fs::exists(kept_in(alone->dir), error)) return settings;
  auto kept = load_settings(arguments, kept_in(alone->dir));
  if (!kept) return settings;
  kept->file_problem = settings.error().message;
  return kept;
}

void keep_settings(const Settings& settings) {
  if (!settings.file_problem.empty()) return;
  std::string text = "# What the settings file said when this lazyfsd was started.\n";
  // A string of JSON is one of TOML as well.
  for (const auto& [name, value] : settings.of_file) text += fmt::format("{} = {}\n", name, dump_json(Json(value)));
  const auto written = write_file_atomic(settings.dir, kept_in(settings.dir), as_bytes(text));
  if (!written) log(LogLevel::warn, "settings_not_kept", {{"reason", written.error().message}});
}

}  // namespace dsec::daemon
