// SPDX-License-Identifier: Apache-2.0
#include "composer/manifest.h"

#include <catch2/catch.hpp>

#include "store/store_support.h"

namespace dsec::composer {
namespace {

constexpr std::string_view kGood = R"(version = 1
name = "swe/django"
tag = "4.2"

[[layer]]
name = "base/debian@12"
from = "oci:images/debian"

[[layer]]
name = "kit"
from = "dir:kit"
target = "/opt/kit"

[[layer]]
name = "stored@1.0"

[config]
entrypoint = ["/bin/sh", "-c"]
cmd = ["true"]
workdir = "/work"
user = "nobody"
env = { A = "1", B = "two" }
)";

std::string error_of(std::string_view text) {
  const auto plan = parse_manifest(text, "dir/env.toml");
  if (plan) return "no error";
  CHECK(plan.error().code == ErrorCode::invalid);
  return plan.error().message;
}

// The good manifest with one line changed.
std::string changed(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a manifest says name, layers from bottom to top, and the configuration") {
  const auto plan = parse_manifest(kGood, "dir/env.toml");
  REQUIRE(plan);
  CHECK(to_string(format::RefKind::env, plan->name) == "swe/django:4.2");
  CHECK(plan->base_dir == "dir");
  REQUIRE(plan->layers.size() == 3);
  CHECK(to_string(format::RefKind::layer, plan->layers[0].ref) == "base/debian@12");
  CHECK(plan->layers[0].from == "oci:images/debian");
  CHECK(plan->layers[1].target == "/opt/kit");
  CHECK(plan->layers[1].ref.tag == "latest");
  CHECK(plan->layers[2].from.empty());
  CHECK(plan->layers[2].where == "dir/env.toml:14");
  CHECK(plan->config.entrypoint == std::vector<std::string>{"/bin/sh", "-c"});
  CHECK(plan->config.cmd == std::vector<std::string>{"true"});
  CHECK(plan->config.env == std::vector<std::pair<std::string, std::string>>{{"A", "1"}, {"B", "two"}});
  CHECK(plan->config.workdir == "/work");
  CHECK(plan->config.user == "nobody");
}

TEST_CASE("what is left out has its default") {
  const auto plan = parse_manifest("version = 1\nname = \"e\"\n[[layer]]\nname = \"l\"\n", "env.toml");
  REQUIRE(plan);
  CHECK(plan->name.tag == "latest");
  CHECK(plan->base_dir == ".");
  CHECK_FALSE(plan->config.entrypoint);
  CHECK_FALSE(plan->config.workdir);
  CHECK(plan->config.env.empty());
}

TEST_CASE("every mistake is told with its file and line") {
  CHECK_THAT(error_of(changed("version = 1", "version = 2")),
             Catch::StartsWith("dir/env.toml:1: ") && Catch::Contains("version = 1"));
  CHECK_THAT(error_of(changed("name = \"swe/django\"", "name = \"Swe/Django\"")),
             Catch::StartsWith("dir/env.toml:2: "));
  CHECK_THAT(error_of(changed("tag = \"4.2\"", "tag = 4.2")), Catch::StartsWith("dir/env.toml:3: "));
  CHECK_THAT(error_of(changed("name = \"kit\"", "name = \"../kit\"")), Catch::StartsWith("dir/env.toml:10: "));
  CHECK_THAT(error_of(changed("target = \"/opt/kit\"", "target = \"opt\"")), Catch::StartsWith("dir/env.toml:12: "));
  CHECK_THAT(error_of(changed("workdir = \"/work\"", "workdir = \"work\"")), Catch::StartsWith("dir/env.toml:20: "));
  CHECK_THAT(error_of(changed("cmd = [\"true\"]", "cmd = \"true\"")), Catch::StartsWith("dir/env.toml:19: "));
  CHECK_THAT(error_of(changed("A = \"1\"", "A = 1")), Catch::StartsWith("dir/env.toml:22: "));
  CHECK_THAT(error_of("version = 1\nname = \n"), Catch::StartsWith("dir/env.toml:2: "));
}

TEST_CASE("an unknown key names the nearest known one") {
  CHECK_THAT(error_of(changed("tag = ", "tga = ")),
             Catch::StartsWith("dir/env.toml:3: ") && Catch::Contains("tga") && Catch::Contains("tag"));
  CHECK_THAT(error_of(changed("from = \"dir:kit\"", "form = \"dir:kit\"")),
             Catch::StartsWith("dir/env.toml:11: ") && Catch::Contains("from"));
  CHECK_THAT(error_of(changed("[config]", "[confg]")), Catch::Contains("config"));
}

TEST_CASE("what is needed is asked for with an example") {
  CHECK_THAT(error_of(changed("name = \"swe/django\"\n", "")), Catch::Contains("\"name\" is missing"));
  CHECK_THAT(error_of(changed("name = \"kit\"\n", "")), Catch::Contains("\"name\" is missing"));
  CHECK_THAT(error_of("name = \"e\"\n"), Catch::Contains("version = 1"));
  CHECK_THAT(error_of("version = 1\nname = \"e\"\n"), Catch::Contains("[[layer]]"));
}

TEST_CASE("a layer from the store cannot be moved to a target") {
  CHECK_THAT(error_of(changed("name = \"stored@1.0\"", "name = \"stored@1.0\"\ntarget = \"/x\"")),
             Catch::StartsWith("dir/env.toml:16: "));
}

TEST_CASE("a manifest file that is absent, no text or too large is told so") {
  const dsec::test::TempDir dir;
  CHECK(load_manifest(dir / "none.toml").error().code == ErrorCode::not_found);
  dsec::test::write_text(dir / "binary.toml", "version = 1\nname = \"\xff\"\n");
  CHECK(load_manifest(dir / "binary.toml").error().code == ErrorCode::invalid);
  dsec::test::write_text(dir / "large.toml", std::string(5 << 20, '#'));
  CHECK(load_manifest(dir / "large.toml").error().code == ErrorCode::invalid);
  dsec::test::write_text(dir / "good.toml", kGood);
  CHECK(load_manifest(dir / "good.toml")->base_dir == dir.path());
}

}  // namespace
}  // namespace dsec::composer
