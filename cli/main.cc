// SPDX-License-Identifier: Apache-2.0
// dsec: the command line.
#include <csignal>
#include <cstdio>
#include <exception>

#include "base/log.h"
#include "cli/parse.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  using namespace dsec;
  configure_log("dsec", LogLevel::warn, LogFormat::text);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error like others
  try {
    const cli::Action action = cli::parse_command_line(argc, argv);
    if (const int* code = std::get_if<int>(&action)) return *code;
    const Result<int> outcome = std::get<std::function<Result<int>()>>(action)();
    if (outcome) return *outcome;
    fmt::print(stderr, "dsec: {}\n", outcome.error().message);
  } catch (const std::exception& error) {
    fmt::print(stderr, "dsec: {}\n", error.what());
  }
  return cli::kExitFailure;
}
