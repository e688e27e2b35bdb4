// SPDX-License-Identifier: Apache-2.0
// lazyfs-keeper: outlives lazyfsd.
#include <cstdio>
#include <exception>

#include "base/log.h"
#include "keeper/keeper.h"
#include "keeper/options.h"

namespace {

constexpr int kUsageError = 2;
constexpr int kFailure = 125;

int run(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--help") return std::fputs(dsec::keeper::options_help().c_str(), stdout) < 0;
  }
  auto options = dsec::keeper::parse_options(arguments);
  if (!options) {
    fmt::print(stderr, "lazyfs-keeper: {}\n", options.error().message);
    return kUsageError;
  }
  dsec::configure_log("lazyfs-keeper", dsec::LogLevel::info, dsec::LogFormat::text);
  dsec::limit_repeated_lines();
  if (const auto outcome = dsec::keeper::keep(std::move(*options)); !outcome) {
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
    fmt::print(stderr, "lazyfs-keeper: {}\n", error.what());
    return kFailure;
  }
}
