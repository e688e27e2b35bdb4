// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/source.h"

#include <catch2/catch.hpp>

#include "composer/sources_support.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;
using Catch::Contains;

TEST_CASE("an unknown scheme is refused with the known ones, and with a guess") {
  CHECK_THAT(message_of(open_source("ocl:x", "/")), Contains("oci:DIR") && Contains("did you mean \"oci:\"?"));
  CHECK_THAT(message_of(open_source("ftp://x", "/")), Contains("tar:FILE"));
  CHECK(open_source("nonsense", "/").error().code == ErrorCode::invalid);
  CHECK_THAT(message_of(open_source("tar:", "/")), Contains("names nothing"));
}

TEST_CASE("a bare path that exists is suggested with its scheme") {
  const TempDir dir;
  write_file(dir / "a.tar", "");
  write_file(dir / "image/oci-layout", "{}");
  CHECK_THAT(message_of(open_source("a.tar", dir.path())), Contains("\"tar:a.tar\""));
  CHECK_THAT(message_of(open_source("image", dir.path())), Contains("\"oci:image\""));
  CHECK_THAT(message_of(open_source(".", dir.path())), Contains("\"dir:.\""));
}

TEST_CASE("relative paths start at the base directory, absolute ones do not") {
  const TempDir dir;
  write_file(dir / "sub/a.tar", "");
  CHECK(open_source("tar:a.tar", dir.path() / "sub"));
  CHECK(open_source("tar:" + (dir / "sub/a.tar").native(), "/nowhere"));
  CHECK(open_source("tar:a.tar", dir.path()).error().code == ErrorCode::not_found);
}

TEST_CASE("only regular files are opened as archives") {
  const TempDir dir;
  shell(dir.path(), "mkfifo p");
  CHECK_THAT(message_of(open_source("tar:p", dir.path())), Contains("no regular file"));
  CHECK_THAT(message_of(open_source("docker-archive:p", dir.path())), Contains("no regular file"));
  CHECK_THAT(message_of(open_source("tar:.", dir.path())), Contains("no regular file"));
}
