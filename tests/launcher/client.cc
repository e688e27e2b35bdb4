// SPDX-License-Identifier: Apache-2.0
// Runs one sandbox, as a process of its own that a test can signal and kill.
//   launcher_client LOWER ID RESULT_FILE [tty] [timeout=MS] -- COMMAND...
// The result (exit code, cause) goes to RESULT_FILE, as "CODE CAUSE SIGNAL".
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "launcher/sandbox.h"

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  dsec::SandboxSpec spec;
  spec.lowers = {argv[1]};
  spec.id = argv[2];
  int i = 4;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (std::strcmp(argv[i], "tty") == 0) spec.tty = dsec::SandboxSpec::Tty::yes;
    if (std::strncmp(argv[i], "timeout=", 8) == 0) spec.timeout = std::chrono::milliseconds(std::atoi(argv[i] + 8));
  }
  for (++i; i < argc; ++i) spec.argv.emplace_back(argv[i]);
  const dsec::Result<dsec::SandboxResult> result = dsec::run_sandbox(spec);
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    return 125;
  }
  if (std::FILE* file = std::fopen(argv[3], "w")) {
    std::fprintf(file, "%d %s %d %s", result->exit_code, result->cause.c_str(), result->signal,
                 result->message.c_str());
    std::fclose(file);
  }
  dsec::wait_for_removals();
  return result->exit_code;
}
