// SPDX-License-Identifier: Apache-2.0
#include "tree/slots.h"

#include <catch2/catch.hpp>

#include "store/store_support.h"

namespace dsec::tree {
namespace {

using namespace dsec::test;

SlotKey key(std::string_view owner, SlotKey::Kind kind = SlotKey::Kind::layer, std::uint32_t index = 0,
            std::uint32_t view = 0) {
  return {kind, digest_of(owner), index, view};
}

TEST_CASE("each key has its own number, from 1, for ever") {
  SlotTable table;
  CHECK(*table.number(key("a")) == 1);
  CHECK(*table.number(key("b")) == 2);
  CHECK(*table.number(key("a")) == 1);
  CHECK(*table.number(key("a", SlotKey::Kind::pure)) == 3);
  CHECK(*table.number(key("a", SlotKey::Kind::layer, 1)) == 4);
  CHECK(*table.number(key("a", SlotKey::Kind::layer, 0, 1)) == 5);
}

TEST_CASE("a table from a file goes on where it ended") {
  const TempDir dir;
  {
    const auto table = *SlotTable::open(dir / "slots");
    CHECK(*table->number(key("a")) == 1);
    CHECK(*table->number(key("b", SlotKey::Kind::merged, 3, 1)) == 2);
  }
  const auto table = *SlotTable::open(dir / "slots");
  CHECK(*table->number(key("c")) == 3);
  CHECK(*table->number(key("b", SlotKey::Kind::merged, 3, 1)) == 2);
  CHECK(*table->number(key("a")) == 1);
}

TEST_CASE("a last line that was cut short is dropped and its number given anew") {
  const TempDir dir;
  {
    const auto table = *SlotTable::open(dir / "slots");
    for (const char* owner : {"a", "b"}) REQUIRE(table->number(key(owner)));
  }
  const std::string whole = read_text(dir / "slots");
  for (std::size_t cut = whole.size() / 2; cut < whole.size(); ++cut) {
    write_text(dir / "slots", whole.substr(0, cut));
    const auto table = SlotTable::open(dir / "slots");
    REQUIRE(table);
    CHECK(*(*table)->number(key("a")) == 1);
    CHECK(*(*table)->number(key("z")) == 2);
    CHECK(*(*table)->number(key("b")) == 3);
  }
}

TEST_CASE("any other damage is corrupt: numbers might name something else") {
  const TempDir dir;
  REQUIRE((*SlotTable::open(dir / "slots"))->number(key("a")));
  const std::string whole = read_text(dir / "slots");
  for (const std::string& text : {"x" + whole, "\n" + whole, "9" + whole.substr(1), whole + "garbage\n" + whole,
                                  whole.substr(0, 20) + "\n", std::string("0 zz 0 0\n"), whole + whole}) {
    write_text(dir / "slots", text);
    const auto table = SlotTable::open(dir / "slots");
    INFO(text);
    REQUIRE_FALSE(table);
    CHECK(table.error().code == ErrorCode::corrupt);
    CHECK_THAT(table.error().message, Catch::Contains("slots"));
  }
}

}  // namespace
}  // namespace dsec::tree
