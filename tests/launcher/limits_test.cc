// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

using namespace dsec;
using namespace dsec::test;

TEST_CASE("more memory than allowed is an oom, not an exit", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.command({"probe", "touch", "200000000"});
  spec.limits.memory_bytes = 32u << 20;
  auto output = bench.run(spec);
  CHECK(output.result.exit_code == 137);
  CHECK(output.result.oom_killed);
  CHECK(output.result.cause == "oom");
  CHECK_FALSE(output.result.infra);

  // A child that is killed does not make the command's own exit an oom, but it is said.
  spec = bench.shell("probe touch 200000000; exit 5");
  spec.limits.memory_bytes = 32u << 20;
  output = bench.run(spec);
  if (output.result.cause == "exit") CHECK(output.result.exit_code == 5);  // cgroup v2 kills the group
  CHECK(output.result.oom_killed);

  spec = bench.command({"probe", "touch", "10000000"});
  spec.limits.memory_bytes = 64u << 20;
  output = bench.run(spec);
  CHECK(output.out == "done\n");
  CHECK_FALSE(output.result.oom_killed);
}

TEST_CASE("processes are limited, ours not counted", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.command({"probe", "forks", "50"});
  spec.limits.pids = 10;
  CHECK(bench.run(spec).out == "9 11\n");  // the command itself is the tenth; EAGAIN
  spec = bench.command({"true"});
  spec.limits.pids = 1;
  CHECK(bench.run(spec).result.exit_code == 0);
}

TEST_CASE("limits can be read inside, where programs look for them", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.shell(
      "cd /sys/fs/cgroup; if [ -e cgroup.controllers ]; then cat memory.max; cat cpu.max; cat pids.max; else "
      "cat memory/memory.limit_in_bytes; echo $(cat cpu/cpu.cfs_quota_us) $(cat cpu/cpu.cfs_period_us); cat "
      "pids/pids.max; fi");
  spec.limits.memory_bytes = 64u << 20;
  spec.limits.cpus = 1.5;
  spec.limits.pids = 100;
  CHECK(bench.run(spec).out == "67108864\n150000 100000\n102\n");
}

TEST_CASE("cpu time is limited", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.shell(
      "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; f=$(ls /sys/fs/cgroup/cpu/cpu.stat /sys/fs/cgroup/cpu.stat "
      "2>/dev/null | head -n1); grep nr_throttled $f");
  spec.limits.cpus = 0.1;
  const auto output = bench.run(spec);
  CHECK_THAT(output.out, Catch::StartsWith("nr_throttled "));
  CHECK(output.out != "nr_throttled 0\n");
}

TEST_CASE("the command's children are the first that the kernel would kill", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  CHECK(bench.run_shell("cat /proc/self/oom_score_adj").out == "500\n");
}

TEST_CASE("shared memory has the size that was asked for", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.shell("dd if=/dev/zero of=/dev/shm/x bs=1M count=10 2>/dev/null; stat -c %s /dev/shm/x");
  spec.shm_bytes = 1u << 20;
  CHECK(bench.run(spec).out == "1048576\n");
}
