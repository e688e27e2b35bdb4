// SPDX-License-Identifier: Apache-2.0
#include "base/mount_table.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <catch2/catch.hpp>

namespace dsec {
namespace {

TEST_CASE("mountinfo is parsed with optional fields and escapes") {
  const auto mounts = parse_mountinfo(
      "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
      "37 35 0:5 / /a\\040b\\134c\\011 rw - tmpfs none rw\n"
      "broken line\n\n38 35 0:6 / /x rw shared:1 propagate_from:2 - proc proc rw");
  REQUIRE(mounts.size() == 3);
  CHECK(mounts[0].device == "98:0");
  CHECK(mounts[0].root == "/mnt1");
  CHECK(mounts[0].point == "/mnt2");
  CHECK(mounts[0].type == "ext3");
  CHECK(mounts[0].options == "rw,errors=continue");
  CHECK(mounts[1].point == "/a b\\c\t");
  CHECK(mounts[2].type == "proc");
}

TEST_CASE("a path is on the last of the longest mounts above it") {
  const std::vector<MountEntry> mounts{{"", "/", "/", "ext4", ""},
                                       {"", "/", "/data", "xfs", ""},
                                       {"", "/", "/data", "tmpfs", ""},
                                       {"", "/", "/data/in", "btrfs", ""}};
  CHECK(mount_of(mounts, "/etc")->type == "ext4");
  CHECK(mount_of(mounts, "/data")->type == "tmpfs");
  CHECK(mount_of(mounts, "/database")->type == "ext4");
  CHECK(mount_of(mounts, "/data/in/x")->type == "btrfs");
  CHECK(mount_of({}, "/x") == nullptr);
}

TEST_CASE("our own mounts are read, with the root among them") {
  const auto mounts = read_mounts();
  REQUIRE(mounts);
  const MountEntry* const root = mount_of(*mounts, "/");
  REQUIRE(root != nullptr);
  CHECK(root->point == "/");
}

}  // namespace
}  // namespace dsec
