// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/image_user.h"

#include <catch2/catch.hpp>

using namespace dsec;
using namespace dsec::launcher;

namespace {

constexpr const char* kPasswd =
    "# comment\nroot:x:0:0:root:/root:/bin/sh\nbroken:x\nbad:x:-1:0::/:\nuser:x:1000:1001::/home/user:/bin/sh\n"
    "123:x:55:56::/numeric:\nnohome:x:7:7:::\n";
constexpr const char* kGroup = "root:x:0:\nusers:x:1001:\nvideo:x:44:other,user\nuserlike:x:45:userx\n99:x:100:\n";

}  // namespace

TEST_CASE("users are resolved as Docker does") {
  const auto user = [](const char* text) { return resolve_user(text, kPasswd, kGroup).value(); };
  CHECK(user("").uid == 0);
  CHECK(user("").home == "/root");
  CHECK(user("user").uid == 1000);
  CHECK(user("user").gid == 1001);
  CHECK(user("user").groups == std::vector<gid_t>{44});
  CHECK(user("1000").groups == std::vector<gid_t>{44});
  CHECK(user("user:video").gid == 44);
  CHECK(user("user:video").groups.empty());
  CHECK(user("user:77").gid == 77);
  CHECK(user("88").uid == 88);
  CHECK(user("88").gid == 0);
  CHECK(user("88").home == "/");
  CHECK(user("123").uid == 55);  // a name first, though it looks like a number
  CHECK(user("0:99").gid == 100);
  CHECK(user("nohome").home == "/");
  CHECK(user(":44").uid == 0);
  CHECK(user(":44").gid == 44);
}

TEST_CASE("users that cannot be resolved are named") {
  for (const char* text : {"absent", "user:absent", "-1", "4294967295", "1.5", "bad", "broken", "us er"}) {
    const auto user = resolve_user(text, kPasswd, kGroup);
    INFO(text);
    REQUIRE_FALSE(user);
    CHECK(user.error().code == ErrorCode::not_found);
  }
  CHECK_THAT(resolve_user("user:absent", kPasswd, kGroup).error().message,
             Catch::Contains("\"absent\"") && Catch::Contains("/etc/group"));
  CHECK(resolve_user("5", "", "").value().uid == 5);
}
