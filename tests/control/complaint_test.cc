// SPDX-License-Identifier: Apache-2.0
#include "control/complaint.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "base/text.h"
#include "support/temp_dir.h"

namespace dsec::control {
namespace {

using test::TempDir;

const std::string kKeeper =
    "2026-01-01T00:00:00.000Z error lazyfs-keeper: failed reason=\"lazyfsd ended before it was ready\"\n";

// The complaint in a log of this text, of which the first `from` bytes were there before.
std::string complaint_in(const std::string& text, std::uint64_t from = 0) {
  const TempDir dir;
  std::ofstream(dir / "log") << text;
  return last_complaint(dir / "log", from);
}

TEST_CASE("what lazyfsd said before it had a log is the reason") {
  CHECK(complaint_in("lazyfsd: /etc/x.toml:2: \"threads\": \"0\" is no number\n" + kKeeper) ==
        "/etc/x.toml:2: \"threads\": \"0\" is no number");
}

TEST_CASE("the last error of lazyfsd goes before what its keeper says, which goes before nothing") {
  const std::string first = "2026-01-01T00:00:00.000Z error lazyfsd: failed reason=first\n";
  const std::string warning = "2026-01-01T00:00:00.000Z warn  lazyfsd: node_cache_off reason=\"not this one\"\n";
  const std::string last = "2026-01-01T00:00:00.000Z error lazyfsd: store_is_another dir=/x reason=\"a \\x22b\\x22\"\n";
  CHECK(complaint_in(first + last + warning + kKeeper) == "store_is_another: a \"b\"");
  CHECK(complaint_in(first + kKeeper) == "first");
  CHECK(complaint_in(warning + kKeeper) == "lazyfsd ended before it was ready");
  CHECK(complaint_in(warning).empty());
  CHECK(complaint_in("").empty());
  CHECK(last_complaint("/nowhere/log", 0).empty());
}

TEST_CASE("lines of JSON are understood") {
  CHECK(complaint_in(R"({"time":"x","level":"error","program":"lazyfsd","event":"failed","reason":"a \"b\""})"
                     "\n") == "a \"b\"");
  CHECK(complaint_in(R"({"level":"warn","program":"lazyfsd","event":"failed","reason":"a"})"
                     "\n{\"level\":\n{}\n")
            .empty());
}

TEST_CASE("what was in the log before is of another start") {
  const std::string old = "lazyfsd: old\n";
  CHECK(complaint_in(old, old.size()).empty());
  CHECK(complaint_in(old + "lazyfsd: new\n", old.size()) == "new");
  CHECK(complaint_in("lazyfsd: new\n", 1 << 20) == "new");  // a new file
}

TEST_CASE("a hostile or endless log is shown in one short printable line") {
  CHECK(complaint_in("lazyfsd: a\x1b[2J\rb\n") == "a\\x1b[2J\\x0db");
  const std::string endless = complaint_in("lazyfsd: " + std::string(2000, 'x') + "\n");
  CHECK(endless == fmt::format("{}...", std::string(kMaxShown, 'x')));
  CHECK(complaint_in("lazyfsd: lost\n" + std::string(2 * kMaxLookedAt, '\n')).empty());
}

}  // namespace
}  // namespace dsec::control
