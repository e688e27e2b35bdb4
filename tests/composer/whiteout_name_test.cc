// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/whiteout_name.h"

#include <catch2/catch.hpp>

using namespace dsec;
using namespace dsec::composer;

namespace {

std::string classified(std::string_view path) {
  constexpr const char* kKinds[] = {"plain", "whiteout", "opaque", "ignored"};
  const auto name = classify_name(path);
  if (!name) return "error";
  return std::string(kKinds[static_cast<int>(name->kind)]) + (name->path.empty() ? "" : " " + name->path);
}

}  // namespace

TEST_CASE("whiteout names are sorted by the image specification") {
  CHECK(classified("a/b") == "plain");
  CHECK(classified("a/x.wh.b") == "plain");
  CHECK(classified(".wh.a") == "whiteout a");
  CHECK(classified("./d/.wh.a") == "whiteout ./d/a");
  CHECK(classified("d/.wh.a/") == "whiteout d/a");
  CHECK(classified("d/.wh..hidden") == "whiteout d/.hidden");
  CHECK(classified("d/.wh....") == "whiteout d/...");
  CHECK(classified(".wh..wh..opq") == "opaque .");
  CHECK(classified("./d/.wh..wh..opq") == "opaque ./d/");
  CHECK(classified(".wh..wh.plnk") == "ignored");
  CHECK(classified(".wh..wh.plnk/12.34") == "ignored");
  CHECK(classified("d/.wh..wh.aufs") == "ignored");
}

TEST_CASE("whiteouts of no name and entries inside whiteouts are refused") {
  for (const char* path : {".wh.", "d/.wh.", ".wh..", "d/.wh...", ".wh.d/x", ".wh../x"})
    CHECK(classified(path) == "error");
}
