// SPDX-License-Identifier: Apache-2.0
// How sandboxes end: exit codes, signals, deadlines, failures of ours.
#include <fcntl.h>
#include <signal.h>

#include <thread>

#include "fixture.h"

using namespace dsec;
using namespace dsec::test;
using namespace std::chrono_literals;

TEST_CASE("the command's exit code is the sandbox's", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  for (const int code : {0, 1, 7, 124, 125, 127, 255}) {
    const auto output = bench.run_shell("exit " + std::to_string(code));
    CHECK(output.result.exit_code == code);
    CHECK(output.result.cause == "exit");
    CHECK_FALSE(output.result.infra);
    CHECK_FALSE(output.result.timed_out);
    CHECK(output.result.signal == 0);
  }
  wait_for_removals();
  CHECK(bench.leftovers() == std::vector<std::string>{});
}

TEST_CASE("a command that a signal kills is told from one that exits with the same code", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  for (const int signal : {SIGTERM, SIGKILL, SIGSEGV}) {
    const auto output = bench.run_shell("kill -" + std::to_string(signal) + " $$");
    CHECK(output.result.exit_code == 128 + signal);
    CHECK(output.result.signal == signal);
    CHECK(output.result.cause == "signal");
  }
  CHECK(bench.run_shell("exit 137").result.cause == "exit");
}

TEST_CASE("commands that cannot be executed end as in a shell", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  write_text(bench.root() / "bin/plain", "#!/bin/sh\n");
  write_text(bench.root() / "bin/text", "this is no program\n");
  write_text(bench.root() / "bin/orphan", "#!/no/such/interpreter\n");
  for (const char* name : {"text", "orphan"}) {
    std::filesystem::permissions(bench.root() / "bin" / name, std::filesystem::perms(0755));
  }
  struct Case {
    const char* command;
    int code;
    const char* cause;
    const char* says;
  };
  for (const Case& c :
       {Case{"no-such-command", 127, "not_found", "command not found"},
        Case{"/no/such/file", 127, "not_found", "No such file"}, Case{"orphan", 127, "not_found", "orphan"},
        Case{"/bin/orphan", 127, "not_found", "interpreter"},
        Case{"/bin/plain", 126, "not_executable", "Permission denied"},
        Case{"plain", 126, "not_executable", "Permission denied"},
        Case{"text", 126, "not_executable", "Exec format error"},
        Case{"/etc", 126, "not_executable", "is a directory"}}) {
    const auto output = bench.run(bench.command({c.command}));
    INFO(c.command);
    CHECK(output.result.exit_code == c.code);
    CHECK(output.result.cause == c.cause);
    CHECK_FALSE(output.result.infra);
    CHECK_THAT(output.err, Catch::Contains(c.says));
  }
}

TEST_CASE("a deadline ends the command, first gently", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.shell("trap 'echo asked; exit 3' TERM; while :; do usleep 10000; done");
  spec.timeout = 200ms;
  const auto asked = bench.run(spec);
  CHECK(asked.result.exit_code == 124);
  CHECK(asked.result.timed_out);
  CHECK(asked.result.cause == "timeout");
  CHECK(asked.out == "asked\n");

  spec = bench.shell("trap '' TERM; while :; do usleep 10000; done");
  spec.timeout = 100ms;
  const auto begin = std::chrono::steady_clock::now();
  const auto forced = bench.run(spec);
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(forced.result.exit_code == 124);
  CHECK(forced.result.signal == SIGKILL);
  CHECK(took > kKillGrace);
  CHECK(took < kKillGrace + 5s);

  spec = bench.command({"true"});
  spec.timeout = 60s;
  CHECK(bench.run(spec).result.cause == "exit");
}

TEST_CASE("our own failures are told from the command's and leave nothing", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.command({"true"});
  spec.user = "nobody-here";
  auto output = bench.run(spec);
  CHECK(output.result.exit_code == 125);
  CHECK(output.result.infra);
  CHECK(output.result.cause == "infra_rootfs");
  CHECK_THAT(output.result.message, Catch::Contains("nobody-here"));

  spec = bench.command({"true"});
  spec.workdir = "/bin/busybox/below";
  output = bench.run(spec);
  CHECK(output.result.cause == "infra_rootfs");
  CHECK_THAT(output.result.message, Catch::Contains("no directory"));

  spec = bench.command({"true"});
  spec.writable_root = "/proc";
  output = bench.run(spec);
  CHECK(output.result.infra);

  // The runtime refuses: a volume cannot be mounted on what is no directory.
  spec = bench.command({"true"});
  spec.volumes.push_back({bench.dir(), "/etc/passwd/x", Volume::Access::read_only});
  output = bench.run(spec);
  CHECK(output.result.cause == "infra_runtime");
  CHECK(output.result.message.size() > 30);
  wait_for_removals();
  CHECK(bench.leftovers() == std::vector<std::string>{});
}

TEST_CASE("specifications that cannot be run are refused before anything happens", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.command({"true"});
  spec.volumes.push_back({"/no/such/source", "/data", Volume::Access::read_write});
  auto result = run_sandbox(spec);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::not_found);
  CHECK_THAT(result.error().message, Catch::Contains("/no/such/source"));

  spec = bench.command({"true"});
  spec.lowers = {"/no/such/lower"};
  result = run_sandbox(spec);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::not_found);

  spec = bench.command({});
  REQUIRE_FALSE(run_sandbox(spec));
  CHECK(bench.leftovers() == std::vector<std::string>{});
}

TEST_CASE("signals to the client go to the command, a second interrupt kills the sandbox", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string script =
      "for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo $s >&2\" $s; done; echo ready; while :; do usleep 5000; "
      "done";
  const std::string id = bench.next_id();
  const std::filesystem::path log = bench.dir() / "signals";
  const Fd out(::open((bench.dir() / "out").c_str(), O_RDWR | O_CREAT, 0644));
  const Fd err(::open(log.c_str(), O_RDWR | O_CREAT, 0644));
  ChildProcess client = bench.start_client(id, {}, {"sh", "-c", script}, {{out.get(), 1}, {err.get(), 2}});
  REQUIRE(eventually([&] { return read_text(bench.dir() / "out") == "ready\n"; }));
  for (const auto& [signal, name] : {std::pair{SIGTERM, "TERM"},
                                     {SIGHUP, "HUP"},
                                     {SIGQUIT, "QUIT"},
                                     {SIGUSR1, "USR1"},
                                     {SIGUSR2, "USR2"},
                                     {SIGINT, "INT"}}) {
    ::kill(client.pid(), signal);
    // The shell's child, in the same process group, gets it as well; some shells tell so.
    const std::string line = std::string(name) + "\n";
    CHECK(eventually([&] { return read_text(log).find(line) != std::string::npos; }));
  }
  ::kill(client.pid(), SIGINT);
  const auto ended = client.wait();
  REQUIRE(ended);
  CHECK(ended->code == 130);
  CHECK_THAT(bench.client_result(id), Catch::StartsWith("130 cancelled 2"));
  CHECK(bench.leftovers_soon() == std::vector<std::string>{});
}

TEST_CASE("process 1 reaps orphans", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const auto output = bench.run(bench.command({"probe", "zombies", "200"}));
  CHECK(output.out == "2\n");
}

TEST_CASE("what the command leaves in the background ends with it", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const auto output = bench.run_shell("(trap '' TERM HUP; sleep 1000) & sleep 1000 & echo done");
  CHECK(output.out == "done\n");
  CHECK(output.result.exit_code == 0);
  CHECK(output.result.phases.run_ms < 5000);
  wait_for_removals();
  CHECK(bench.leftovers() == std::vector<std::string>{});
}

TEST_CASE("many runs, one after the other and at once, leave nothing", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  for (int i = 0; i < 30; ++i) CHECK(bench.run_shell("exit 3").result.exit_code == 3);
  std::vector<SandboxSpec> specs;
  for (int i = 0; i < 10; ++i) specs.push_back(bench.shell("usleep 50000; exit " + std::to_string(i)));
  std::vector<int> codes(10, -1);
  std::vector<std::string> messages(10);
  std::vector<std::thread> threads;
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&, i] {
      specs[i].signals = SandboxSpec::Signals::forward;
      const auto result = run_sandbox(specs[i]);
      codes[i] = result ? result->exit_code : -2;
      messages[i] = result ? result->message : result.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 10; ++i) {
    INFO(messages[i]);
    CHECK(codes[i] == i);
  }
  wait_for_removals();
  CHECK(bench.leftovers() == std::vector<std::string>{});
}
