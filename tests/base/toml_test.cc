// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include <fcntl.h>

#include <catch2/catch.hpp>

#include "base/fd.h"
#include "support/temp_dir.h"

using namespace dsec;

namespace {

TomlTable parsed(std::string_view text) {
  auto table = TomlTable::parse(text, "f.toml");
  INFO((table ? "" : table.error().message));
  REQUIRE(table);
  return *table;
}

template <typename T>
void check_error(const Result<T>& result, const std::string& start) {
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::invalid);
  INFO(result.error().message);
  CHECK(result.error().message.find(start) == 0);
}

}  // namespace

TEST_CASE("values are read by their types") {
  TomlTable table =
      parsed("t = 'x'\ni = -3\nn = 1.5\nb = true\nl = ['a', 'b']\n[sub]\nk = 1\n[[many]]\nx = 1\n[[many]]\nx = 2\n");
  CHECK(table.text("t").value().value() == "x");
  CHECK(table.integer("i").value().value() == -3);
  CHECK(table.number("n").value().value() == 1.5);
  CHECK(table.number("i").value().value() == -3.0);
  CHECK(table.boolean("b").value().value());
  CHECK(table.texts("l").value().value() == std::vector<std::string>{"a", "b"});
  CHECK(table.table("sub").value()->integer("k").value() == 1);
  auto many = table.tables("many").value();
  REQUIRE(many.size() == 2);
  CHECK(many[1].integer("x").value() == 2);
  CHECK(table.finish());
}

TEST_CASE("an absent key is empty, not an error") {
  TomlTable table = parsed("");
  CHECK_FALSE(table.text("x").value());
  CHECK_FALSE(table.number("x").value());
  CHECK_FALSE(table.table("x").value());
  CHECK_FALSE(table.texts("x").value());
  CHECK(table.tables("x").value().empty());
  CHECK_FALSE(table.has("x"));
  CHECK(table.finish());
}

TEST_CASE("errors name the file and the line") {
  check_error(TomlTable::parse("a = 1\nb = \n", "f.toml"), "f.toml:2: ");
  check_error(TomlTable::parse("a = 1\na = 2\n", "f.toml"), "f.toml:2: ");
  TomlTable table = parsed("\n\na = 1\nl = ['x', 1]\nt = 'x'\n");
  check_error(table.text("a"), "f.toml:3: \"a\" must be a string");
  check_error(table.boolean("a"), "f.toml:3: ");
  check_error(table.integer("t"), "f.toml:5: ");
  check_error(table.number("t"), "f.toml:5: ");
  check_error(table.texts("l"), "f.toml:4: ");
  check_error(table.texts("t"), "f.toml:5: ");
  check_error(table.table("a"), "f.toml:3: ");
  check_error(table.tables("l"), "f.toml:4: ");
  CHECK(table.where("t") == "f.toml:5");
  CHECK(table.where("absent") == "f.toml:1");
}

TEST_CASE("a key that nothing asked for is an error with a suggestion") {
  TomlTable table = parsed("memory = 1\n[net]\nmdoe = 'x'\n");
  REQUIRE(table.integer("memory"));
  TomlTable net = table.table("net").value().value();
  CHECK(table.finish());
  REQUIRE(net.text("mode"));
  check_error(net.finish(), "f.toml:3: unknown key \"mdoe\"; did you mean \"mode\"?");
}

TEST_CASE("a free table of strings keeps its names and refuses other values") {
  TomlTable table = parsed("[env]\nB = '2'\nA = '1'\n[bad]\nx = 1\n");
  const auto pairs = table.table("env").value()->text_map().value();
  CHECK(pairs == std::vector<std::pair<std::string, std::string>>{{"A", "1"}, {"B", "2"}});
  check_error(table.table("bad").value()->text_map(), "f.toml:5: ");
}

TEST_CASE("hostile documents are errors") {
  check_error(TomlTable::parse("a = " + std::string(100000, '['), "f.toml"), "f.toml:1: ");
  check_error(TomlTable::parse("a = '\xff'", "f.toml"), "f.toml:1: ");
  check_error(TomlTable::parse("a = 99999999999999999999", "f.toml"), "f.toml:1: ");
}

TEST_CASE("keys have a limit of parts, before their tables fill the stack") {
  std::string dotted = "a";
  for (int i = 0; i < 1000000; ++i) dotted += ".a";
  for (const std::string& text :
       {dotted + " = 1", "[" + dotted + "]", "[[" + dotted + "]]", "x = {" + dotted + " = 1}"}) {
    check_error(TomlTable::parse("# ...\n" + text, "f.toml"), "f.toml:2: a key has more than 64 parts");
  }
  std::string quoted = "a";
  for (int i = 0; i < 64; ++i) quoted += " . \"b.\\\"\"";
  check_error(TomlTable::parse(quoted + " = 1", "f.toml"), "f.toml:1: a key has more than 64 parts");
  check_error(TomlTable::parse("x = {s = \"\"\"a\"\"\"\"\", " + dotted + " = 1}", "f.toml"),
              "f.toml:1: a key has more");
  check_error(TomlTable::parse("s = 'a\n" + dotted + " = 1", "f.toml"), "f.toml:2: a key has more than 64 parts");
}

TEST_CASE("dots that are in no key do not count") {
  const std::string dots(1000, '.');
  CHECK(TomlTable::parse("a = '" + dots + "'\nb = \"\\\"" + dots + "\"\n#" + dots + "\n", "f.toml"));
  CHECK(TomlTable::parse("a = '''\n'x" + dots + "'''\nb = \"\"\"\n\"" + dots + "\\\"\"\"\"\n", "f.toml"));
  std::string numbers = "a = [1.5";
  for (int i = 0; i < 1000; ++i) numbers += ", 1.5";
  CHECK(TomlTable::parse(numbers + "]\nz.b.c.d.e = 1\n", "f.toml"));
}

TEST_CASE("a file that is not there is not found, one that is no text invalid") {
  const test::TempDir dir;
  CHECK(TomlTable::load(dir / "absent").error().code == ErrorCode::not_found);
  const auto fd = open_file(dir / "x", O_WRONLY | O_CREAT, 0600);
  REQUIRE(write_all(*fd, as_bytes("\xff")));
  CHECK(TomlTable::load(dir / "x").error().code == ErrorCode::invalid);
}
