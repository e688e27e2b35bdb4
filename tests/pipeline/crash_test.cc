// SPDX-License-Identifier: Apache-2.0
// A composer that is killed: the store is as before, or has the whole environment; litter is in tmp/ only.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "composer/check.h"
#include "pipeline/compose_support.h"

namespace dsec::composer {
namespace {

using namespace compose_test;
using Temp = dsec::test::TempDir;

// Composes in a process that is killed after `delay`; false when it was done before.
bool killed_while_composing(const store::Store& store, const std::string& source, std::chrono::microseconds delay) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(try_compose(store, source, "crash", 2) ? 0 : 1);
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
  return WIFSIGNALED(status);
}

TEST_CASE("a composer killed at any time leaves a store that is whole") {
  const Temp dir;
  make_sample(dir / "tree", 1);
  const std::string source = "dir:" + (dir / "tree").native();
  const auto start = std::chrono::steady_clock::now();
  const ComposeReport whole = composed(new_store(dir / "reference"), source, "crash", 2);
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);

  constexpr unsigned kSeed = 4;
  INFO("seed " << kSeed);
  std::mt19937_64 random(kSeed);
  int killed = 0;
  const store::Store store = new_store(dir / "store");
  for (int round = 0; round < 25; ++round) {
    const std::chrono::microseconds delay(random() % static_cast<std::uint64_t>(duration.count() * 3 / 2));
    killed += killed_while_composing(store, source, delay) ? 1 : 0;
    const auto report = check_store(store, {});
    REQUIRE(report);
    for (const CheckProblem& problem : report->problems)
      FAIL_CHECK(problem.what << " " << problem.name << ": " << problem.message);
    const auto env = store.resolve(format::RefKind::env, "crash");
    if (!env) continue;
    CHECK(*env == whole.env);
    std::filesystem::remove_all(store.root());
    new_store(dir / "store");
  }
  CHECK(killed > 0);
  CHECK(composed(store, source, "crash").env == whole.env);
  CHECK(check_store(store, {})->problems.empty());
}

}  // namespace
}  // namespace dsec::composer
