// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "support/temp_dir.h"

using namespace dsec;
using namespace std::chrono_literals;

namespace {

ChildProcess shell(const std::string& script, SpawnOptions options = {}) {
  options.argv = {"/bin/sh", "-c", script};
  auto child = ChildProcess::spawn(options);
  INFO((child ? "" : child.error().message));
  REQUIRE(child);
  return std::move(*child);
}

// What a shell prints with these descriptors.
std::string output_of(const std::string& script, SpawnOptions options = {}) {
  Pipe out = make_pipe().value();
  options.fds.emplace_back(out.write_end.get(), 1);
  ChildProcess child = shell(script, options);
  out.write_end.reset();
  std::string text;
  Bytes buffer(4096);
  for (std::size_t n = 1; n > 0;) {
    n = read_some(out.read_end, buffer).value();
    text += as_text(ByteView(buffer).first(n));
  }
  REQUIRE(child.wait());
  return text;
}

}  // namespace

TEST_CASE("a child's exit status is told from its killing") {
  CHECK(shell("exit 0").wait()->success());
  const ExitStatus seven = shell("exit 7").wait().value();
  CHECK(seven.code == 7);
  CHECK(seven.signal == 0);
  const ExitStatus killed = shell("kill -TERM $$").wait().value();
  CHECK(killed.signal == SIGTERM);
  CHECK_FALSE(killed.success());
}

TEST_CASE("a program that does not exist is not found") {
  CHECK(ChildProcess::spawn({.argv = {"/no/such/program"}}).error().code == ErrorCode::not_found);
  CHECK(ChildProcess::spawn({.argv = {"no-such-program-in-path"}}).error().code == ErrorCode::not_found);
  CHECK(ChildProcess::spawn({.argv = {"/etc/passwd"}}).error().code == ErrorCode::permission);
  CHECK(ChildProcess::spawn({}).error().code == ErrorCode::invalid);
}

TEST_CASE("a wait with a deadline returns when either comes") {
  ChildProcess child = shell("exec sleep 60");
  CHECK_FALSE(child.wait_for(20ms).value());
  ::kill(child.pid(), SIGKILL);
  const auto status = child.wait_for(10s).value();
  REQUIRE(status);
  CHECK(status->signal == SIGKILL);
  CHECK(shell("exit 3").wait_for(std::chrono::hours(24 * 365)).value()->code == 3);  // more than poll(2) can wait
}

TEST_CASE("a child that nobody waited for is killed and reaped") {
  pid_t pid = -1;
  {
    ChildProcess child = shell("exec sleep 60");
    pid = child.pid();
    CHECK(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) == -1);
  CHECK(errno == ESRCH);
}

TEST_CASE("a detached child lives on") {
  pid_t pid = -1;
  {
    ChildProcess child = shell("exec sleep 60");
    pid = child.pid();
    child.detach();
  }
  CHECK(::kill(pid, 0) == 0);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST_CASE("variables are added and replaced") {
  ::setenv("DSEC_TEST_A", "old", 1);
  SpawnOptions options;
  options.env = {{"DSEC_TEST_A", "new"}, {"DSEC_TEST_B", "b c"}};
  CHECK(output_of("echo \"$DSEC_TEST_A,$DSEC_TEST_B\"", options) == "new,b c\n");
  ::unsetenv("DSEC_TEST_A");
}

TEST_CASE("a child has the descriptors that it was given and no others") {
  // One that is not closed on exec must not get through either.
  const Fd leaky(::fcntl(STDERR_FILENO, F_DUPFD, 30));
  const Fd also_leaky(::fcntl(STDERR_FILENO, F_DUPFD, 5));
  const Pipe pipe = make_pipe().value();
  SpawnOptions options;
  options.fds = {{pipe.read_end.get(), 9}};
  CHECK(output_of("cd /proc/self/fd && for f in *; do [ -e /proc/$$/fd/$f ] && printf '%s ' $f; done", options) ==
        "0 1 2 9 ");
}

TEST_CASE("descriptors may be exchanged, whatever their numbers are") {
  const test::TempDir dir;
  const auto file = [&](const char* name, int at_least) {
    const Fd fd = open_file(dir / name, O_RDWR | O_CREAT, 0600).value();
    REQUIRE(write_all(fd, as_bytes(name)));
    return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, at_least));
  };
  // Numbers of ours that are targets of others, and high ones.
  const Fd a = file("a", 10);
  const Fd b = file("b", 11);
  const Fd c = file("c", 200);
  const Fd d = file("d", 201);
  SpawnOptions options;
  options.fds = {{a.get(), 11}, {b.get(), 10}, {c.get(), 12}, {d.get(), 13}};
  CHECK(output_of("for n in 11 10 12 13; do readlink /proc/$$/fd/$n; done | sed 's,.*/,,' | tr -d '\\n'", options) ==
        "abcd");
}

TEST_CASE("a child may have a session or a group of its own") {
  SpawnOptions options;
  options.session = SpawnOptions::Session::own;
  ChildProcess in_session = shell("exec sleep 60", options);
  CHECK(::getsid(in_session.pid()) == in_session.pid());
  options.session = SpawnOptions::Session::same;
  options.group = SpawnOptions::Group::own;
  ChildProcess in_group = shell("exec sleep 60", options);
  CHECK(::getpgid(in_group.pid()) == in_group.pid());
  CHECK(::getpgid(shell("exec sleep 60").pid()) == ::getpgid(0));
}

TEST_CASE("a child does not inherit blocked or ignored signals") {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  CHECK(shell("kill -TERM $$; exit 1").wait()->signal == SIGTERM);
  CHECK(shell("kill -PIPE $$; exit 1").wait()->signal == SIGPIPE);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
}

TEST_CASE("a program's output is returned, a failure with the end of its errors") {
  CHECK(run_program({"/bin/sh", "-c", "echo out; echo err >&2"}).value() == "out\n");
  const auto failed = run_program({"/bin/sh", "-c", "echo broken >&2; exit 9"});
  CHECK(failed.error().code == ErrorCode::io);
  CHECK(failed.error().message.find("status 9: broken") != std::string::npos);
  CHECK(run_program({"/bin/sh", "-c", "yes"}, 1000).error().code == ErrorCode::invalid);
  CHECK(run_program({"/bin/sh", "-c", "yes | head -c 3000000 >&2; echo ok"}, 1000).value() == "ok\n");
  CHECK(run_program({"no-such-program"}).error().code == ErrorCode::not_found);
}

TEST_CASE("what may hang is asked in a copy of the process") {
  CHECK(ask_apart([] { return std::string("yes"); }, 10s).value() == "yes");
  const std::string large(20000, 'x');
  CHECK(ask_apart([&] { return large; }, 10s).value() == large);
  const auto start = std::chrono::steady_clock::now();
  const auto hung = ask_apart(
      []() -> std::string {
        while (true) ::pause();
      },
      50ms);
  REQUIRE_FALSE(hung);
  CHECK(hung.error().code == ErrorCode::timeout);
  CHECK(std::chrono::steady_clock::now() - start < 10s);
}

TEST_CASE("a process that has ended but is still there is doomed, one that lives is not") {
  const auto ours = facts_of_process(::getpid());
  REQUIRE(ours);
  CHECK(ours->start_ticks > 0);
  CHECK_FALSE(ours->is_doomed);
  ChildProcess child = shell("exec sleep 100");
  CHECK_FALSE(facts_of_process(child.pid())->is_doomed);
  ::kill(child.pid(), SIGKILL);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT) == 0);
  CHECK(facts_of_process(child.pid())->is_doomed);  // nobody has waited for it
  const pid_t pid = child.pid();
  REQUIRE(child.wait());
  CHECK_FALSE(facts_of_process(pid));
}
