// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/spec_json.h"

#include <catch2/catch.hpp>

#include "base/json.h"

using namespace dsec;
using namespace dsec::launcher;

namespace {

SandboxSpec sample() {
  SandboxSpec spec;
  spec.id = "sb-1";
  spec.name = "n";
  spec.lowers = {"/a", "/b"};
  spec.argv = {"x", "", "ü \"quoted\"\n"};
  spec.env = {{"A", "1"}, {"B", ""}};
  spec.volumes = {{"/s", "/t", Volume::Access::read_only}, {"/u", "/v", Volume::Access::read_write}};
  spec.limits = {0.5, 1u << 30, 7};
  spec.timeout = std::chrono::milliseconds(1500);
  spec.network = Network::host;
  spec.keep = SandboxSpec::Keep::yes;
  spec.tty = SandboxSpec::Tty::yes;
  spec.workdir = "/w";
  spec.user = "u";
  spec.hostname = "h";
  spec.writable_root = "/rw";
  spec.shm_bytes = 123;
  return spec;
}

}  // namespace

TEST_CASE("a specification survives the way to the monitor") {
  const std::string text = spec_to_json(sample(), "2026-01-01T00:00:00Z").value();
  const SandboxSpec back = spec_from_json(text).value();
  CHECK(spec_to_json(back, "2026-01-01T00:00:00Z").value() == text);
  CHECK(back.argv == sample().argv);
  CHECK(back.lowers == sample().lowers);
  CHECK(back.limits.cpus == 0.5);
  CHECK(back.limits.pids == 7);
  CHECK(back.timeout == sample().timeout);
  CHECK(back.volumes[0].access == Volume::Access::read_only);
  CHECK(back.tty == SandboxSpec::Tty::yes);
  CHECK(created_at_from_json(text).value() == "2026-01-01T00:00:00Z");
}

TEST_CASE("a result survives the way back") {
  SandboxResult result;
  result.id = "sb-1";
  result.exit_code = 3;
  result.cause = "exit";
  result.message = "bytes \xff";
  result.oom_killed = true;
  result.kept_upper = "/k";
  result.phases.run_ms = 1.5;
  const SandboxResult back = result_from_json(result_to_json(result)).value();
  CHECK(back.exit_code == 3);
  CHECK(back.oom_killed);
  CHECK(back.kept_upper == "/k");
  CHECK(back.phases.run_ms == 1.5);
  CHECK_FALSE(result_from_json("{}"));
  CHECK_FALSE(result_from_json("{\"id\":"));
}

TEST_CASE("specifications that cannot be meant are refused, each with its reason") {
  const auto refused = [](void (*change)(SandboxSpec&), const char* says) {
    SandboxSpec spec = sample();
    change(spec);
    const auto result = validate_spec(spec);
    INFO(says);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::invalid);
    CHECK_THAT(result.error().message, Catch::Contains(says));
  };
  CHECK(validate_spec(sample()));
  refused([](SandboxSpec& s) { s.argv.clear(); }, "no command");
  refused([](SandboxSpec& s) { s.argv[0] = "\xff"; }, "UTF-8");
  refused([](SandboxSpec& s) { s.argv[0] = std::string("a\0b", 3); }, "NUL");
  refused([](SandboxSpec& s) { s.id = "../x"; }, "id");
  refused([](SandboxSpec& s) { s.name = "a/b"; }, "name");
  refused([](SandboxSpec& s) { s.name = std::string(65, 'a'); }, "64");
  refused([](SandboxSpec& s) { s.hostname = "-x"; }, "hostname");
  refused([](SandboxSpec& s) { s.lowers.clear(); }, "lower");
  refused([](SandboxSpec& s) { s.workdir = "rel"; }, "absolute");
  refused([](SandboxSpec& s) { s.volumes[0].target = "rel"; }, "absolute");
  refused([](SandboxSpec& s) { s.volumes[0].target = "/x/.."; }, "/x/..");
  refused([](SandboxSpec& s) { s.env[0].first = "A=B"; }, "A=B");
  refused([](SandboxSpec& s) { s.env[0].first = ""; }, "name");
  refused([](SandboxSpec& s) { s.limits.cpus = 0; }, "cpus");
  refused([](SandboxSpec& s) { s.limits.cpus = std::numeric_limits<double>::quiet_NaN(); }, "cpus");
  refused([](SandboxSpec& s) { s.limits.memory_bytes = 1; }, "6.0 MiB");
  refused([](SandboxSpec& s) { s.limits.pids = 0; }, "processes");
  refused([](SandboxSpec& s) { s.timeout = std::chrono::milliseconds(0); }, "timeout");
}

TEST_CASE("generated ids are valid and differ") {
  const std::string one = new_sandbox_id();
  CHECK(one.size() == 15);
  CHECK(one.rfind("sb-", 0) == 0);
  CHECK(one != new_sandbox_id());
}
