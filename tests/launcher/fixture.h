// SPDX-License-Identifier: Apache-2.0
// A root file system of busybox, a state directory of its own, and what must be gone at the end.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/process.h"
#include "launcher/sandbox.h"
#include "support/skip.h"

namespace dsec::test {

// Why sandboxes cannot be tested here; empty when they can.
std::string why_no_sandboxes();

// One per test case. Sets DSEC_STATE_DIR and DSEC_RUNTIME_DIR; the destructor sweeps and removes everything.
class SandboxBench {
 public:
  SandboxBench();
  ~SandboxBench();
  SandboxBench(const SandboxBench&) = delete;
  SandboxBench& operator=(const SandboxBench&) = delete;

  [[nodiscard]] const std::filesystem::path& dir() const { return dir_; }
  [[nodiscard]] std::filesystem::path root() const { return dir_ / "root"; }
  [[nodiscard]] std::filesystem::path sandboxes() const { return dir_ / "state/sandboxes"; }

  // A specification with an id of this bench, for `sh -c script` or a whole command.
  SandboxSpec shell(const std::string& script);
  SandboxSpec command(std::vector<std::string> argv);
  std::string next_id();

  struct Output {
    SandboxResult result;
    std::string out;
    std::string err;
  };
  // Runs it with its output in files. REQUIREs that run_sandbox() itself succeeds.
  Output run(SandboxSpec spec);
  Output run_shell(const std::string& script) { return run(shell(script)); }

  // The client program on COMMAND; result() reads what it wrote.
  ChildProcess start_client(const std::string& id, const std::vector<std::string>& options,
                            const std::vector<std::string>& command, std::vector<std::pair<int, int>> fds = {});
  std::string client_result(const std::string& id);
  // Waits until list_sandboxes() says "running".
  SandboxInfo wait_running(const std::string& id);

  // Everything that is left of this bench's sandboxes: directories, cgroups, mounts, processes. Empty when clean.
  [[nodiscard]] std::vector<std::string> leftovers() const;
  // The same after waiting for a moment for what ends by itself.
  [[nodiscard]] std::vector<std::string> leftovers_soon() const;

 private:
  std::filesystem::path dir_;
  std::string prefix_;
  int count_ = 0;
};

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);
// Waits up to `ms` for `done()`; what it says at the end.
bool eventually(const std::function<bool()>& done, int ms = 5000);

}  // namespace dsec::test

#define NEED_SANDBOXES()                                          \
  do {                                                            \
    const std::string why_not = ::dsec::test::why_no_sandboxes(); \
    if (!why_not.empty()) SKIP_TEST(why_not);                     \
  } while (false)
