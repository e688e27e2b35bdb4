// SPDX-License-Identifier: Apache-2.0
// lazyfsd: the file system daemon.
#include <malloc.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "daemon/daemon.h"
#include "daemon/kept_settings.h"

namespace {

constexpr int kUsageError = 2;
constexpr int kFailure = 125;

// Each arena of glibc, by default eight for each processor, keeps what the threads that came by it once needed. Reads
// are as fast with two: their threads copy, decode, hash and wait, and hardly meet in malloc. $MALLOC_ARENA_MAX says
// otherwise.
constexpr int kArenas = 2;

void bound_arenas() {
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) ::mallopt(M_ARENA_MAX, kArenas);
}

int run(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--help") return std::fputs(dsec::daemon::settings_help().c_str(), stdout) < 0;
    if (argument == "--print-conf") return std::fputs(dsec::daemon::settings_sample().c_str(), stdout) < 0;
  }
  const bool only_check = !arguments.empty() && arguments[0] == "--check-settings";
  const auto settings = only_check ? dsec::daemon::load_settings({arguments.begin() + 1, arguments.end()})
                                   : dsec::daemon::choose_settings(arguments);
  if (!settings) {
    fmt::print(stderr, "lazyfsd: {}\n", settings.error().message);
    return kUsageError;
  }
  if (only_check) return 0;
  ::prctl(PR_SET_NAME, "lazyfsd");  // a keeper starts it from a descriptor, whose number would be its name
  dsec::configure_log("lazyfsd", dsec::LogLevel::info, settings->log_format);
  bound_arenas();
  dsec::limit_repeated_lines();
  if (const auto outcome = dsec::daemon::run_daemon(*settings); !outcome) {
    dsec::log(dsec::LogLevel::error, "failed", {{"reason", outcome.error().message}});
    return kFailure;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "lazyfsd: {}\n", error.what());
    return kFailure;
  }
}
