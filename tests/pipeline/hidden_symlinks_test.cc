// SPDX-License-Identifier: Apache-2.0
#include "composer/hidden_symlinks.h"

#include <catch2/catch.hpp>

#include "composer/sources_support.h"

namespace dsec::composer {
namespace {

using namespace test;

std::string found(std::string_view layer, std::string_view below) {
  std::string text;
  for (const HiddenLink& link : find_hidden_symlinks(tree_of(layer), merged_of(below)))
    text += link.path + " -> " + link.target + "\n";
  return text;
}

TEST_CASE("directories over symlinks are found, at every depth, in order of their paths") {
  CHECK(found("/lib directory\n/lib/x regular\n/usr directory\n/usr/bin directory\n",
              "/lib symlink target=usr/lib\n/usr directory\n/usr/bin symlink target=../bin\n") ==
        "/lib -> usr/lib\n/usr/bin -> ../bin\n");
}

TEST_CASE("files, whiteouts and opaque directories over symlinks are meant, and say nothing") {
  CHECK(found("/a regular\n/b whiteout\n/c symlink target=y\n/d directory opaque\n/d/e directory\n",
              "/a symlink target=x\n/b symlink target=x\n/c symlink target=x\n/d directory\n/d/e symlink target=x\n") ==
        "");
}

TEST_CASE("names of any bytes are escaped") {
  CHECK(found("/\\xff directory\n", "/\\xff symlink target=\\x0a\n") == "/\\xff -> \\x0a\n");
}

}  // namespace
}  // namespace dsec::composer
