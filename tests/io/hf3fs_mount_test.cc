// SPDX-License-Identifier: Apache-2.0
// Finding 3FS: its mounts, and its library.
#include "io/hf3fs_mount.h"

#include <sys/sysmacros.h>

#include "io/engines.h"
#include "io/hf3fs_support.h"

namespace dsec::io {
namespace {

using namespace dsec::test;

TEST_CASE("a 3FS mount is told by the type of the mount with the file's device") {
  const auto mounts = parse_mountinfo(
      "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "36 21 0:48 / /hf3fs/one rw,nosuid - fuse.hf3fs hf3fs.stage rw,user_id=0\n"
      "37 21 0:49 /sub /data\\040with\\011odd\\134name ro shared:7 master:1 - fuse.hf3fs hf3fs.stage rw\n"
      "38 21 0:50 / /other rw - fuse.sshfs host:/ rw\n"
      "cut short\n"
      "39 21 0:51 / /no/dash rw fuse.hf3fs\n");
  CHECK(hf3fs_mount_among(mounts, makedev(0, 48)) == "/hf3fs/one");
  CHECK(hf3fs_mount_among(mounts, makedev(0, 49)) == "/data with\todd\\name");
  CHECK_FALSE(hf3fs_mount_among(mounts, makedev(0, 50)));
  CHECK_FALSE(hf3fs_mount_among(mounts, makedev(0, 51)));
  CHECK_FALSE(hf3fs_mount_among(mounts, makedev(8, 1)));
  CHECK_FALSE(hf3fs_mount_among({}, makedev(0, 48)));
}

TEST_CASE("a directory of this machine is not on 3FS, and one that is missing says so") {
  const TempDir dir;
  const auto here = is_on_hf3fs(dir.path());
  REQUIRE(here);
  CHECK_FALSE(*here);
  const auto missing = is_on_hf3fs(dir / "missing");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
}

TEST_CASE("the library names the mount point of a path, or says that it is not on 3FS") {
  const TempDir dir;
  const TempDir elsewhere;
  REQUIRE(make_dirs(dir / "deep/down"));
  const Hf3fsMock mock(dir.path().native());
  const auto found = hf3fs_mount_point(*mock.api(), dir / "deep/down");
  REQUIRE(found);
  CHECK(*found == std::filesystem::canonical(dir.path()).native());
  const auto not_there = hf3fs_mount_point(*mock.api(), elsewhere.path());
  REQUIRE_FALSE(not_there);
  CHECK(not_there.error().code == ErrorCode::unsupported);
}

TEST_CASE("a library that is missing, no library, or that lacks a function is unsupported and named") {
  const auto missing = load_hf3fs_api("libhf3fs_that_is_not_there.so");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::unsupported);
  CHECK(missing.error().message.find("libhf3fs_that_is_not_there.so") != std::string::npos);
  const auto other = load_hf3fs_api("libm.so.6");
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::unsupported);
  CHECK(other.error().message.find("hf3fs_is_hf3fs") != std::string::npos);
}

}  // namespace
}  // namespace dsec::io
