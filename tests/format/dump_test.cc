// SPDX-License-Identifier: Apache-2.0
#include "format/dump.h"

#include <catch2/catch.hpp>

#include "format/erofs.h"
#include "format/trees.h"

using namespace dsec;
using namespace dsec::format;

namespace {

std::string error_of(const std::string& text) {
  const auto tree = parse_dump(text);
  REQUIRE_FALSE(tree);
  CHECK(tree.error().code == ErrorCode::invalid);
  return tree.error().message;
}

bool mentions(const std::string& text, const char* what) { return text.find(what) != std::string::npos; }

}  // namespace

TEST_CASE("random trees come back from their dumps as they were") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const LayerTree tree = dsec::format::test::random_tree(seed, 30);
    const std::string text = dump_layer(tree);
    const auto again = parse_dump(text);
    INFO((again ? "" : again.error().message));
    REQUIRE(again);
    CHECK(dump_layer(*again) == text);
    CHECK((write_layer(*again).value() == write_layer(tree).value()));
  }
}

TEST_CASE("a dump is lenient where people write") {
  const auto tree = parse_dump("# hello\n\n/ directory\n/f regular uid=3 mode=600\n/d directory\n/d/l link to=/f");
  REQUIRE(tree);
  CHECK(dump_layer(*tree) ==
        "/ directory mode=0755 uid=0 gid=0 mtime=0\n"
        "/d directory mode=0755 uid=0 gid=0 mtime=0\n"
        "/d/l regular mode=0600 uid=3 gid=0 mtime=0\n"
        "/f link to=/d/l\n");
}

TEST_CASE("errors of a dump name the line") {
  const std::string root = "/ directory\n";
  CHECK(mentions(error_of(""), "no root"));
  CHECK(mentions(error_of("/f regular\n"), "line 1: expected \"/ directory\""));
  CHECK(mentions(error_of(root + "#\n/f\n"), "line 3: expected a path and a type"));
  CHECK(mentions(error_of(root + "/f file\n"), "line 2: unknown type \"file\""));
  CHECK(mentions(error_of(root + "f regular\n"), "does not start with a slash"));
  CHECK(mentions(error_of(root + "/d/f regular\n"), "directory of \"/d/f\" is not there"));
  CHECK(mentions(error_of(root + "/f regular\n/f regular\n"), "line 3: \"/f\" is there already"));
  CHECK(mentions(error_of(root + "/f regular\n/f/g regular\n"), "no directory"));
  CHECK(mentions(error_of(root + "/f link to=/g\n"), "target \"/g\" is not there"));
  CHECK(mentions(error_of(root + "/f link\n"), "to=PATH"));
  CHECK(mentions(error_of(root + "/d directory\n/f link to=/d\n"), "line 3: "));
  CHECK(mentions(error_of(root + "/.. regular\n"), "line 2: "));
  CHECK(mentions(error_of(root + "/ directory\n"), "line 2: "));
  CHECK(mentions(error_of(root + "/a\\xzz regular\n"), "broken escape"));
}

TEST_CASE("attributes of a dump are checked") {
  const auto error = [](const std::string& line) { return error_of("/ directory\n/f " + line + "\n"); };
  CHECK(mentions(error("regular mode=9"), "no number"));
  CHECK(mentions(error("regular mode=200000"), "no number that fits"));
  CHECK(mentions(error("regular uid=-1"), "no number"));
  CHECK(mentions(error("regular uid=4294967296"), "no number that fits"));
  CHECK(mentions(error("regular mtime=1.5"), "9 digits"));
  CHECK(mentions(error("regular uid=1 uid=1"), "given twice"));
  CHECK(mentions(error("regular xattr:user.a=1 xattr:user.\\x61=2"), "given twice"));
  CHECK(mentions(error("regular color=red"), "no attribute \"color\""));
  CHECK(mentions(error("regular opaque"), "no attribute"));
  CHECK(mentions(error("regular target=x"), "no attribute"));
  CHECK(mentions(error("regular object=12"), "64 hex digits"));
  CHECK(mentions(error("regular uid"), "no attribute"));
  CHECK(mentions(error("directory opaque=y"), "no attribute"));
  CHECK(mentions(error("fifo size=1"), "no attribute"));
  CHECK(mentions(error("char_device device=1"), "MAJOR:MINOR"));
  CHECK(mentions(error("whiteout mode=0644"), "no attribute"));
  CHECK(mentions(error("regular  uid=1"), "no attribute"));
}
