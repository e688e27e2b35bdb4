// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach_log.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "base/process.h"
#include "support/temp_dir.h"

namespace dsec::daemon {
namespace {

Digest env(std::string_view name) { return sha256(as_bytes(name)); }

std::vector<AttachLog::Shown> reread(const std::filesystem::path& path) {
  auto log = AttachLog::open(path);
  REQUIRE(log);
  return (*log)->shown();
}

Result<ChildProcess> spawn_sleep() {
  SpawnOptions options;
  options.argv = {"sleep", "60"};
  return ChildProcess::spawn(options);
}

TEST_CASE("a successor finds what was attached, in order, with owners and holders") {
  const test::TempDir dir;
  const auto path = dir / "attachments";
  {
    auto log = AttachLog::open(path);
    REQUIRE(log);
    CHECK((*log)->shown().empty());
    (*log)->attached(env("b"), View::plain, "mount:/x y\n\"z\"", {});
    (*log)->attached(env("a"), View::overlay, "sandbox:1", LeaseHolder{12, 34});
    (*log)->attached(env("a"), View::overlay, "sandbox:2", {});
    (*log)->attached(env("b"), View::plain, "gone", {});
    (*log)->detached("gone");
    (*log)->detached("never there");
  }
  for (int i = 0; i < 2; ++i) {  // also after it was rewritten
    const auto shown = reread(path);
    REQUIRE(shown.size() == 2);
    CHECK(shown[0].env == env("b"));
    REQUIRE(shown[0].owners.size() == 1);
    CHECK(shown[0].owners.begin()->first == "mount:/x y\n\"z\"");
    CHECK_FALSE(shown[0].owners.begin()->second);
    CHECK(shown[1].view == View::overlay);
    REQUIRE(shown[1].owners.at("sandbox:1"));
    CHECK(shown[1].owners.at("sandbox:1")->pid == 12);
    CHECK(shown[1].owners.at("sandbox:1")->start_ticks == 34);
  }
}

TEST_CASE("what was shown to be recorded goes with its owner") {
  const test::TempDir dir;
  const auto path = dir / "attachments";
  auto log = AttachLog::open(path);
  REQUIRE(log);
  (*log)->attached(env("a"), View::record, "sandbox:1", {});
  (*log)->attached(env("a"), View::plain, "sandbox:2", {});
  auto shown = reread(path);
  REQUIRE(shown.size() == 2);
  CHECK(shown[0].view == View::record);
  log = AttachLog::open(path);
  REQUIRE(log);
  (*log)->detached("sandbox:1");
  shown = reread(path);
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].view == View::plain);
}

TEST_CASE("an environment without owners is shown until it is dropped") {
  const test::TempDir dir;
  const auto path = dir / "attachments";
  {
    auto log = AttachLog::open(path);
    REQUIRE(log);
    (*log)->attached(env("a"), View::plain, "one", {});
    (*log)->attached(env("b"), View::plain, "two", {});
    (*log)->detached("one");
    (*log)->dropped(env("b"));  // owned: it stays
  }
  REQUIRE(reread(path).size() == 2);
  CHECK(reread(path)[0].owners.empty());
  {
    auto log = AttachLog::open(path);
    REQUIRE(log);
    (*log)->dropped(env("a"));
  }
  REQUIRE(reread(path).size() == 1);
  CHECK(reread(path)[0].env == env("b"));
}

TEST_CASE("a line that was cut short is forgotten, any other damage is an error") {
  const test::TempDir dir;
  const auto path = dir / "attachments";
  {
    auto log = AttachLog::open(path);
    REQUIRE(log);
    (*log)->attached(env("a"), View::plain, "one", {});
  }
  std::ofstream(path, std::ios::app) << "{\"op\":\"att";
  CHECK(reread(path).size() == 1);
  std::ofstream(path, std::ios::app) << "{\"op\":\"what\"}\n";
  CHECK_FALSE(AttachLog::open(path));
}

TEST_CASE("it stays small however often something is attached") {
  const test::TempDir dir;
  const auto path = dir / "attachments";
  auto log = AttachLog::open(path);
  REQUIRE(log);
  const std::string owner(10000, 'o');
  for (int i = 0; i < 1000; ++i) {
    (*log)->attached(env("a"), View::plain, owner, {});
    (*log)->detached(owner);
  }
  CHECK(std::filesystem::file_size(path) < (6 << 20));
}

TEST_CASE("a lease is kept while its process lives") {
  auto child = spawn_sleep();
  REQUIRE(child);
  const auto holder = holder_of(child->pid());
  REQUIRE(holder);
  Leases leases;
  leases.keep("one", *holder);
  leases.keep("forgotten", *holder);
  leases.keep("other process", {holder->pid, holder->start_ticks + 1});
  CHECK(leases.ended() == std::vector<std::string>{"other process"});
  CHECK(leases.ended().empty());
  leases.forget("forgotten");
  CHECK(leases.ended().empty());
}

TEST_CASE("a lease ends with its process") {
  Leases leases;
  {
    auto child = spawn_sleep();
    REQUIRE(child);
    leases.keep("one", *holder_of(child->pid()));
    CHECK(leases.ended().empty());
  }
  CHECK(leases.ended() == std::vector<std::string>{"one"});
}

}  // namespace
}  // namespace dsec::daemon
