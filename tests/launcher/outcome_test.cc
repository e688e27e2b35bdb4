// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/outcome.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <cerrno>

using namespace dsec;
using namespace dsec::launcher;

namespace {

Ending said(dsec_init_event event, int value) {
  Ending ending;
  ending.started = true;
  ending.last = dsec_init_report{event, value};
  return ending;
}

}  // namespace

TEST_CASE("the word of process 1 decides") {
  SandboxResult result = judge(said(DSEC_INIT_EXITED, 124));
  CHECK(result.exit_code == 124);
  CHECK(result.cause == "exit");
  CHECK_FALSE(result.timed_out);

  result = judge(said(DSEC_INIT_SIGNALED, SIGSEGV));
  CHECK(result.exit_code == 139);
  CHECK(result.signal == SIGSEGV);

  CHECK(judge(said(DSEC_INIT_NOT_EXECUTED, ENOENT)).exit_code == 127);
  CHECK(judge(said(DSEC_INIT_NOT_EXECUTED, EACCES)).exit_code == 126);
  CHECK(judge(said(DSEC_INIT_NOT_EXECUTED, ENOEXEC)).cause == "not_executable");
  CHECK(judge(said(DSEC_INIT_UNCONFINED, 0)).infra);
  CHECK(judge(said(DSEC_INIT_FAILED, EMFILE)).infra);
}

TEST_CASE("a kill at the memory limit is told from other kills") {
  Ending ending = said(DSEC_INIT_SIGNALED, SIGKILL);
  CHECK(judge(ending).cause == "signal");
  ending.oom_kills = 1;
  CHECK(judge(ending).cause == "oom");
  CHECK(judge(ending).exit_code == 137);
  ending = said(DSEC_INIT_EXITED, 1);
  ending.oom_kills = 3;
  CHECK(judge(ending).cause == "exit");
  CHECK(judge(ending).oom_killed);
  // The whole group was killed, process 1 with it.
  ending = said(DSEC_INIT_STARTED, 0);
  ending.oom_kills = 1;
  CHECK(judge(ending).cause == "oom");
  CHECK_FALSE(judge(ending).infra);
}

TEST_CASE("why the monitor ended it comes before how it ended") {
  Ending ending = said(DSEC_INIT_EXITED, 0);
  ending.stop = Stop::deadline;
  SandboxResult result = judge(ending);
  CHECK(result.exit_code == 124);
  CHECK(result.timed_out);
  CHECK(result.signal == 0);
  ending.last = dsec_init_report{DSEC_INIT_SIGNALED, SIGTERM};
  CHECK(judge(ending).signal == SIGTERM);
  ending.stop = Stop::interrupted;
  CHECK(judge(ending).exit_code == 130);
  for (const Stop stop : {Stop::removed, Stop::client_gone}) {
    ending.stop = stop;
    CHECK(judge(ending).exit_code == 137);
    CHECK(judge(ending).cause == "cancelled");
    CHECK_FALSE(judge(ending).infra);
  }
}

TEST_CASE("silence is our failure, with the runtime's words") {
  Ending ending;
  ending.runtime.code = 1;
  ending.runtime_log = "mount `x`: No such file or directory";
  SandboxResult result = judge(ending);
  CHECK(result.exit_code == 125);
  CHECK(result.infra);
  CHECK(result.cause == "infra_runtime");
  CHECK_THAT(result.message, Catch::Contains("mount `x`"));
  ending.runtime_log.clear();
  ending.runtime = {137, 9};
  CHECK_THAT(judge(ending).message, Catch::Contains("signal 9"));
  CHECK_THAT(judge(said(DSEC_INIT_STARTED, 0)).message, Catch::Contains("from outside"));
}
