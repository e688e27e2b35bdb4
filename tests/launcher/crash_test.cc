// SPDX-License-Identifier: Apache-2.0
// Whatever is killed, whenever: the command dies, and a sweep removes the rest.
#include <signal.h>
#include <sys/mount.h>

#include <random>
#include <thread>

#include "fixture.h"

using namespace dsec;
using namespace dsec::test;

namespace {

// The process that runs crun for this sandbox, 0 if none.
pid_t find_crun(const std::string& id) {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string line = read_text(at->path() / "cmdline");
    if (line.find("crun") != std::string::npos &&
        line.find(std::string(1, '\0') + id + std::string(1, '\0')) != std::string::npos &&
        line.find("dsec-monitor") == std::string::npos) {
      return static_cast<pid_t>(std::atol(at->path().filename().c_str()));
    }
  }
  return 0;
}

pid_t find_monitor(const std::string& id) {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    if (read_text(at->path() / "cmdline").find("dsec-monitor" + std::string(1, '\0') + id) != std::string::npos) {
      return static_cast<pid_t>(std::atol(at->path().filename().c_str()));
    }
  }
  return 0;
}

std::vector<std::string> processes_only(std::vector<std::string> leftovers) {
  std::erase_if(leftovers, [](const std::string& what) { return what.rfind("process", 0) != 0; });
  return leftovers;
}

}  // namespace

TEST_CASE("the client's death ends the sandbox and its monitor cleans up", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string id = bench.next_id();
  ChildProcess client = bench.start_client(id, {}, {"sleep", "1000"});
  bench.wait_running(id);
  ::kill(client.pid(), SIGKILL);
  CHECK(bench.leftovers_soon() == std::vector<std::string>{});  // without a sweep
}

TEST_CASE("the monitor's death ends the sandbox and its client cleans up", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string id = bench.next_id();
  ChildProcess client = bench.start_client(id, {}, {"sleep", "1000"});
  ::kill(bench.wait_running(id).monitor_pid, SIGKILL);
  const auto ended = client.wait();
  REQUIRE(ended);
  CHECK(ended->code == 125);
  CHECK_THAT(bench.client_result(id), Catch::StartsWith("125 infra_monitor"));
  CHECK(bench.leftovers_soon() == std::vector<std::string>{});
}

TEST_CASE("the death of crun or of process 1 ends the sandbox", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  for (const bool init : {false, true}) {
    const std::string id = bench.next_id();
    ChildProcess client = bench.start_client(id, {}, {"sleep", "1000"});
    const SandboxInfo info = bench.wait_running(id);
    const pid_t victim = init ? info.init_pid : find_crun(id);
    REQUIRE(victim > 0);
    ::kill(victim, SIGKILL);
    const auto ended = client.wait();
    REQUIRE(ended);
    CHECK(ended->code == 125);
    CHECK_THAT(bench.client_result(id), Catch::Contains("infra_runtime"));
    CHECK(bench.leftovers_soon() == std::vector<std::string>{});
  }
}

TEST_CASE("client and monitor killed together leave what one sweep removes", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string id = bench.next_id();
  SandboxSpec spec = bench.command({"sleep", "1000"});
  ChildProcess client = bench.start_client(id, {}, {"sh", "-c", "echo x > /file; sleep 1000"});
  const SandboxInfo info = bench.wait_running(id);
  ::kill(client.pid(), SIGKILL);
  ::kill(info.monitor_pid, SIGKILL);
  CHECK(eventually([&] { return processes_only(bench.leftovers()).empty(); }));
  CHECK_FALSE(bench.leftovers().empty());
  const auto list = list_sandboxes();
  REQUIRE(list);
  REQUIRE(list->size() == 1);
  CHECK(list->front().state == "dead");
  const auto report = sweep_orphans();
  REQUIRE(report);
  CHECK(report->removed == std::vector<std::string>{id});
  CHECK(report->failures == std::vector<std::string>{});
  CHECK(bench.leftovers() == std::vector<std::string>{});
}

TEST_CASE("killing at random moments leaves nothing after a sweep", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 45; ++round) {
    const std::string id = bench.next_id();
    ChildProcess client = bench.start_client(id, {}, {"sh", "-c", "(sleep 1000 &); echo x > /file; sleep 1000"});
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    const int victim = round % 3;
    pid_t pid = victim == 0 ? client.pid() : victim == 1 ? find_monitor(id) : find_crun(id);
    if (pid > 0) ::kill(pid, SIGKILL);
    if (round % 2 == 0 && victim != 0) ::kill(client.pid(), SIGKILL);
    if (pid <= 0) ::kill(client.pid(), SIGKILL);
    REQUIRE(client.wait());
  }
  CHECK(eventually([&] { return processes_only(bench.leftovers()).empty(); }));
  const auto report = sweep_orphans();
  REQUIRE(report);
  CHECK(report->failures == std::vector<std::string>{});
  CHECK(bench.leftovers_soon() == std::vector<std::string>{});
}

TEST_CASE("a sweep leaves alone what lives, what is kept and what is not ours", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string alive = bench.next_id();
  ChildProcess client = bench.start_client(alive, {}, {"sleep", "1000"});
  const SandboxInfo info = bench.wait_running(alive);
  // A dead one with hostile facts: a cgroup that is not its own, a mount and a link in its tree.
  const std::filesystem::path outside = bench.dir() / "outside";
  write_text(outside / "precious", "x");
  const std::string dead = bench.next_id();
  const std::filesystem::path dir = bench.sandboxes() / dead;
  write_text(dir / "lock", "monitor 1\ncgroup /sys/fs/cgroup/pids\ncgroup /sys/fs/cgroup/pids/dsec/" + alive + "\n");
  std::filesystem::create_directories(dir / "upper/mounted");
  std::filesystem::create_symlink(outside, dir / "upper/link");
  REQUIRE(::mount(outside.c_str(), (dir / "upper/mounted").c_str(), nullptr, MS_BIND, nullptr) == 0);
  const std::string empty = bench.next_id();
  std::filesystem::create_directory(bench.sandboxes() / empty);

  const auto report = sweep_orphans();
  REQUIRE(report);
  CHECK(report->removed == std::vector<std::string>{dead, empty});
  CHECK(report->failures == std::vector<std::string>{});
  CHECK(read_text(outside / "precious") == "x");
  CHECK(::kill(info.init_pid, 0) == 0);
  ::kill(client.pid(), SIGTERM);
  CHECK(client.wait()->code == 143);
}

TEST_CASE("runs sweep by themselves", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string dead = bench.next_id();
  write_text(bench.sandboxes() / dead / "upper/file", "x");
  CHECK(bench.run_shell("true").result.exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(bench.sandboxes() / dead));
}
