// SPDX-License-Identifier: Apache-2.0
// What a sandbox must not see, do or change.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <sstream>

#include "fixture.h"

using namespace dsec;
using namespace dsec::test;

namespace {

std::map<std::string, int> pairs(const std::string& text) {
  std::map<std::string, int> result;
  std::istringstream lines(text);
  std::string name;
  for (int value = 0; lines >> name >> value;) result[name] = value;
  return result;
}

}  // namespace

TEST_CASE("only its own processes, network and groups are visible", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  CHECK(bench.run_shell("echo /proc/[0-9]*").out == "/proc/1 /proc/2\n");
  CHECK(bench.run_shell("ls /sys/class/net").out == "lo\n");
  CHECK(bench.run_shell("ip addr show lo | grep -c 'inet 127.0.0.1/8'; ping -c1 -W1 127.0.0.1 >/dev/null && echo up")
            .out == "1\nup\n");
  CHECK_THAT(bench.run_shell("cat /proc/self/cgroup").out, !Catch::Contains("dsec"));
  // No directory of the host's groups anywhere below.
  CHECK_THAT(bench.run_shell("ls -R /sys/fs/cgroup").out, !Catch::Contains("dsec"));
}

TEST_CASE("mounts are the sandbox's own and show no directory of the host", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string mounts = bench.run_shell("cat /proc/self/mountinfo").out;
  CHECK_THAT(mounts, Catch::Contains(" / / "));
  CHECK_THAT(mounts, !Catch::Contains(bench.sandboxes().native()));
  CHECK_THAT(mounts, !Catch::Contains(bench.root().native()));
  CHECK_THAT(mounts, Catch::Contains(" /sys/fs/cgroup"));
}

TEST_CASE("capabilities are Docker's fourteen and no new privileges can be had", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const char* show = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t'";
  CHECK(bench.run_shell(show).out ==
        "CapInh:0000000000000000\nCapPrm:00000000a80425fb\nCapEff:00000000a80425fb\nCapBnd:00000000a80425fb\n"
        "CapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n");
  SandboxSpec spec = bench.shell(show);
  spec.user = "user";
  CHECK(bench.run(spec).out ==
        "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:00000000a80425fb\n"
        "CapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n");
}

TEST_CASE("system calls outside the list fail, those in it do not", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::map<std::string, int> denied = pairs(bench.run(bench.command({"probe", "denied"})).out);
  CHECK(denied.size() == 25);
  for (const auto& [name, error] : denied) {
    INFO(name);
    CHECK(error == (name == "clone3" || name == "unknown" ? ENOSYS : EPERM));
  }
  for (const auto& [name, error] : pairs(bench.run(bench.command({"probe", "allowed"})).out)) {
    INFO(name);
    CHECK(error == 0);
  }
}

TEST_CASE("paths of the kernel are masked or read-only", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const auto output = bench.run_shell(
      "for f in /proc/keys /proc/timer_list /proc/interrupts /proc/kcore; do [ -e $f ] && head -c 1 $f 2>/dev/null | "
      "wc -c; done;"
      "ls /sys/firmware /proc/acpi 2>/dev/null | grep -v : | wc -w; echo x > /proc/sys/kernel/core_pattern;"
      "echo b > /proc/sysrq-trigger; echo x > /sys/kernel/profiling; echo +1 > /sys/fs/cgroup/pids/pids.max");
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) CHECK(line == "0");
  CHECK(std::count(output.err.begin(), output.err.end(), '\n') == 4);
}

TEST_CASE("the host's disks cannot be opened", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  struct stat st {};
  REQUIRE(::stat("/", &st) == 0);
  const auto disk = bench.run(
      bench.command({"probe", "open-device", "b", std::to_string(major(st.st_dev)), std::to_string(minor(st.st_dev))}));
  const auto expected =
      std::map<std::string, int>{{"mknod", 0}, {"open", EPERM}, {"mknod-dev", 0}, {"open-dev", EPERM}};
  CHECK(pairs(disk.out) == expected);
  // kmsg, mem, fuse: character devices that are not on the list.
  for (const char* number : {"11", "1"}) {
    CHECK(pairs(bench.run(bench.command({"probe", "open-device", "c", "1", number})).out)["open-dev"] == EPERM);
  }
  CHECK(bench.run_shell("head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; echo x > /dev/null && echo ok")
            .out == "3\n3\nok\n");
}

TEST_CASE("process 1 cannot be inspected or replaced", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  for (const char* user : {"", "user"}) {
    SandboxSpec spec = bench.command({"probe", "ptrace-init"});
    spec.user = user;
    for (const auto& [name, error] : pairs(bench.run(spec).out)) {
      INFO(user << " " << name);
      CHECK(error != 0);
    }
  }
  // Killing it from inside does nothing.
  CHECK(bench.run_shell("kill -9 1; kill -STOP 1; echo alive").out == "alive\n");
}

TEST_CASE("what is written stays in the writable layer", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  write_text(bench.root() / "etc/config", "old\n");
  const auto output =
      bench.run_shell("echo new > /etc/config; rm -r /home; echo x > /made; chmod 600 /etc/passwd; cat /etc/config");
  CHECK(output.out == "new\n");
  CHECK(read_text(bench.root() / "etc/config") == "old\n");
  CHECK(std::filesystem::exists(bench.root() / "home/user"));
  CHECK_FALSE(std::filesystem::exists(bench.root() / "made"));
  CHECK(bench.run_shell("cat /etc/config; ls -d /home").out == "old\n/home\n");
}

TEST_CASE("the root directory looks like the environment's", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  REQUIRE(::chmod(bench.root().c_str(), 0711) == 0);
  CHECK(bench.run_shell("stat -c '%a %u:%g' /").out == "711 0:0\n");
}

TEST_CASE("a writable layer that is hard to delete is deleted", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const auto output = bench.run_shell(
      "cd /tmp; i=0; while [ $i -lt 300 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; echo deep > file;"
      "mkdir /tmp/locked && chmod 0 /tmp/locked; echo x > \"/tmp/new\nline\"; ln -s / /tmp/slash; echo ok");
  CHECK(output.out == "ok\n");
  wait_for_removals();
  CHECK(bench.leftovers() == std::vector<std::string>{});
  CHECK(std::filesystem::exists("/bin/busybox"));
}
