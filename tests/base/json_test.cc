// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <catch2/catch.hpp>

using namespace dsec;

namespace {

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

}  // namespace

TEST_CASE("JSON that is no JSON is refused with its name and place") {
  for (const char* bad : {"", "{", "{\"a\":}", "[1,]", "nul", "1 2", "\"\xff\"", "{\"a\":1e999}"}) {
    INFO(bad);
    const auto document = parse_json(bad, "config.json");
    REQUIRE_FALSE(document);
    CHECK(document.error().code == ErrorCode::invalid);
    CHECK(document.error().message.find("config.json") == 0);
  }
}

TEST_CASE("JSON may be nested as deep as the limit") {
  CHECK(parse_json(nested(kMaxJsonDepth), "x"));
  CHECK_FALSE(parse_json(nested(kMaxJsonDepth + 1), "x"));
  CHECK_FALSE(parse_json(nested(100000), "x"));
  CHECK_FALSE(parse_json(std::string(1000000, '['), "x"));
}

TEST_CASE("canonical JSON has sorted keys and no spaces") {
  const Json document = parse_json(R"({ "b": [1, 2.5, null], "a": {"z": "é\n"} })", "x").value();
  CHECK(canonical_json(document).value() == R"({"a":{"z":"é\n"},"b":[1,2.5,null]})");
  CHECK_FALSE(canonical_json(Json("\xff")));
  CHECK(dump_json(Json("\xff")) == "\"\xef\xbf\xbd\"");
}

TEST_CASE("members are typed, and an absent one is not a wrong one") {
  const Json object = parse_json(R"({"t":"x","u":3,"i":-3,"f":1.5,"b":true,"l":["a"],"m":["a",1],"n":null,"o":{},
                                     "max":18446744073709551615})",
                                 "x")
                          .value();
  CHECK(json_text(object, "t").value() == "x");
  CHECK(json_uint(object, "u").value() == 3);
  CHECK(json_uint(object, "max").value() == ~0ull);
  CHECK(json_int(object, "i").value() == -3);
  CHECK(json_bool(object, "b").value());
  CHECK(json_texts(object, "l").value() == std::vector<std::string>{"a"});
  CHECK(json_object(object, "o").value().empty());
  CHECK(json_text(object, "absent").error().code == ErrorCode::not_found);
  CHECK(json_text(object, "n").error().code == ErrorCode::not_found);
  for (const char* key : {"i", "f", "t"}) CHECK(json_uint(object, key).error().code == ErrorCode::invalid);
  for (const char* key : {"max", "f", "t"}) CHECK(json_int(object, key).error().code == ErrorCode::invalid);
  CHECK(json_text(object, "u").error().code == ErrorCode::invalid);
  CHECK(json_texts(object, "m").error().code == ErrorCode::invalid);
  CHECK(json_bool(object, "u").error().code == ErrorCode::invalid);
  CHECK(json_array(object, "o").error().code == ErrorCode::invalid);
  CHECK(json_text(Json(1), "t").error().code == ErrorCode::invalid);
  CHECK(or_default(json_text(object, "absent"), std::string("d")).value() == "d");
  CHECK_FALSE(or_default(json_text(object, "u"), std::string("d")));
}
