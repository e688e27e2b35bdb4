// SPDX-License-Identifier: Apache-2.0
#include "format/env.h"

#include <catch2/catch.hpp>

#include "format/samples.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

namespace {

std::string replaced(std::string_view from, std::string_view to) {
  std::string text = write_env(sample_env()).value();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

bool is_read(std::string_view text) {
  const auto env = read_env(text);
  if (!env) CHECK(env.error().code == ErrorCode::corrupt);
  return env.has_value();
}

template <typename Change>
bool is_written_with(Change change) {
  Env env = sample_env();
  change(env);
  const auto text = write_env(env);
  if (!text) CHECK(text.error().code == ErrorCode::invalid);
  return text.has_value();
}

}  // namespace

TEST_CASE("an environment comes back as it was") {
  CHECK(read_env(write_env(sample_env()).value()).value() == sample_env());
  Env bare;
  bare.layers = {digest_of("one")};
  CHECK(read_env(write_env(bare).value()).value() == bare);
}

TEST_CASE("F-70: only the canonical document is read") {
  CHECK(is_read(replaced("", "")));
  CHECK_FALSE(is_read(replaced("{", " {")));
  CHECK_FALSE(is_read(replaced(",", ", ")));
  CHECK_FALSE(is_read(write_env(sample_env()).value() + "\n"));
  CHECK_FALSE(is_read(replaced("\"user\"", "\"\\u0075ser\"")));
  CHECK_FALSE(is_read(replaced("\"version\":1", "\"version\":1,\"version\":1")));
  CHECK_FALSE(is_read(replaced("\"version\":1", "\"version\":1.0")));
  CHECK_FALSE(is_read(replaced("\xc3\xa9", "\xc3")));
  CHECK_FALSE(is_read(""));
  CHECK_FALSE(is_read(std::string(100000, '[')));
}

TEST_CASE("F-71: members are known, there, and of their type") {
  CHECK_FALSE(is_read(replaced("\"version\":1", "\"version\":2")));
  CHECK_FALSE(is_read(replaced("\"version\":1", "\"more\":0,\"version\":1")));
  CHECK_FALSE(is_read(replaced(",\"version\":1", "")));
  CHECK_FALSE(is_read(replaced("\"workdir\":\"/work\"", "\"workdir\":null")));
  CHECK_FALSE(is_read(replaced("\"workdir\":\"/work\"", "\"workdir\":[]")));
  CHECK_FALSE(is_read(replaced("\"/bin/sh\"", "7")));
  CHECK_FALSE(is_read("[]"));
}

TEST_CASE("F-72: an environment has 1 to 512 layers, each a digest") {
  CHECK_FALSE(is_written_with([](Env& e) { e.layers.clear(); }));
  CHECK(is_written_with([](Env& e) { e.layers.assign(kMaxLayers, digest_of("x")); }));
  CHECK_FALSE(is_written_with([](Env& e) { e.layers.assign(kMaxLayers + 1, digest_of("x")); }));
  CHECK_FALSE(is_read(replaced(digest_of("top").hex(), "")));
  CHECK_FALSE(is_read(replaced(digest_of("top").hex(), std::string(64, 'A'))));
}

TEST_CASE("F-73: variables have names, each once") {
  const auto with = [](const std::string& name, const std::string& value) {
    return is_written_with([&](Env& e) { e.config.env.emplace_back(name, value); });
  };
  CHECK(with("a", "="));
  CHECK_FALSE(with("", "x"));
  CHECK_FALSE(with("a=b", "x"));
  CHECK_FALSE(with(std::string("a\0b", 3), "x"));
  CHECK_FALSE(with("a", std::string("a\0b", 3)));
  CHECK_FALSE(with("PATH", "x"));
  CHECK_FALSE(is_read(replaced("EMPTY=", "EMPTY")));
}

TEST_CASE("F-74: texts are UTF-8 without NUL and the document has a limit") {
  const std::string nul("a\0b", 3);
  CHECK_FALSE(is_written_with([](Env& e) { e.config.user = "\xff"; }));
  CHECK_FALSE(is_written_with([&](Env& e) { e.config.user = nul; }));
  CHECK_FALSE(is_written_with([&](Env& e) { e.config.workdir = nul; }));
  CHECK_FALSE(is_written_with([&](Env& e) { e.config.cmd = {nul}; }));
  CHECK_FALSE(is_written_with([&](Env& e) { e.config.entrypoint = {nul}; }));
  CHECK_FALSE(is_written_with([](Env& e) { e.config.user = std::string(kMaxEnvBytes, 'u'); }));
  CHECK_FALSE(is_read(std::string(kMaxEnvBytes + 1, ' ')));
}

TEST_CASE("F-9: names and tags are parsed, others refused") {
  const auto env = parse_ref(RefKind::env, "swe/django:4.2");
  REQUIRE(env);
  CHECK(env->name == "swe/django");
  CHECK(env->tag == "4.2");
  CHECK(to_string(RefKind::env, *env) == "swe/django:4.2");
  CHECK(parse_ref(RefKind::env, "a")->tag == "latest");
  CHECK(parse_ref(RefKind::layer, "base/debian@12")->tag == "12");
  CHECK(to_string(RefKind::layer, {"b", "1"}) == "b@1");

  for (const char* good : {"0", "a-b_c.d--e", "a/b/c/d", "a:_x", "a:V1+2.3-4"}) {
    INFO(good);
    CHECK(parse_ref(RefKind::env, good));
  }
  for (const char* bad :
       {"",   ":",   "a:",  ":a",   "/a",   "a/",    "a//b",  ".",   "..",   "a/..",     "../a",  "A",      "-a",
        "a-", "a b", "a\n", "a:.x", "a:-x", "a:b:c", "a:b/c", "a@b", "a\\b", "\xc3\xa9", "a.ref", "a.ref/b"}) {
    INFO(bad);
    const auto ref = parse_ref(RefKind::env, bad);
    REQUIRE_FALSE(ref);
    CHECK(ref.error().code == ErrorCode::invalid);
  }
  CHECK(parse_ref(RefKind::env, std::string(200, 'a')));
  CHECK_FALSE(parse_ref(RefKind::env, std::string(201, 'a')));
  CHECK(parse_ref(RefKind::env, "a:" + std::string(128, 'a')));
  CHECK_FALSE(parse_ref(RefKind::env, "a:" + std::string(129, 'a')));
  CHECK_FALSE(parse_ref(RefKind::env, std::string("a\0b", 3)));
}

TEST_CASE("variables replace those of their name in place; others come at the end") {
  Variables variables{{"A", "1"}, {"B", "2"}};
  set_variables(variables, {{"C", "3"}, {"A", "4"}, {"C", "5"}});
  CHECK(variables == Variables{{"A", "4"}, {"B", "2"}, {"C", "5"}});
}
