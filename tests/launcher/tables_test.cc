// SPDX-License-Identifier: Apache-2.0
// What is read from /proc: cgroups.
#include <catch2/catch.hpp>

#include "launcher/internal/cgroup.h"

using namespace dsec;
using namespace dsec::launcher;

namespace {

constexpr const char* kHybrid =
    "30 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "31 30 0:29 / /x/none/cpu,cpuacct rw,relatime shared:3 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:30 / /x/none/memory rw - cgroup cgroup rw,memory\n"
    "33 30 0:31 / /x/none/blkio rw - cgroup cgroup rw,blkio\n"
    "34 30 0:32 / /x/none/systemd rw - cgroup cgroup rw,name=systemd\n"
    "35 30 0:33 / /x/none/unified rw - cgroup2 cgroup2 rw\n";

}  // namespace

TEST_CASE("on a hybrid host the controllers are version 1's") {
  const auto mounts = parse_mountinfo(kHybrid);
  const auto driver = make_cgroup_driver(mounts, "3:memory:/own/group\n2:cpu,cpuacct:/\n0::/\n");
  REQUIRE(driver);
  CHECK((*driver)->version() == "v1");
  // These mount points do not exist, so they cannot be written to: our own groups are the base.
  const auto directories = (*driver)->directories("sb-1");
  CHECK(directories ==
        std::vector<std::filesystem::path>{"/x/none/cpu,cpuacct/dsec/sb-1", "/x/none/memory/own/group/dsec/sb-1"});
  const auto views = (*driver)->views("sb-1");
  CHECK(views[0].name == "cpu,cpuacct");
  CHECK(views[1].name == "memory");
}

TEST_CASE("with version 2 alone there is one group") {
  const auto driver = make_cgroup_driver(parse_mountinfo("35 30 0:33 / /x/cg rw - cgroup2 cgroup2 rw\n"), "0::/me\n");
  REQUIRE(driver);
  CHECK((*driver)->version() == "v2");
  CHECK((*driver)->directories("sb-1") == std::vector<std::filesystem::path>{"/x/cg/me/dsec/sb-1"});
}

TEST_CASE("in a container the mount's own root is taken off our path") {
  const auto driver =
      make_cgroup_driver(parse_mountinfo("35 30 0:33 /docker/1 /x/cg rw - cgroup2 cgroup2 rw\n"), "0::/docker/1/sub\n");
  CHECK((*driver)->directories("s") == std::vector<std::filesystem::path>{"/x/cg/sub/dsec/s"});
}

TEST_CASE("without any hierarchy it says what to do") {
  const auto driver = make_cgroup_driver({}, "");
  REQUIRE_FALSE(driver);
  CHECK(driver.error().code == ErrorCode::unsupported);
  CHECK_THAT(driver.error().message, Catch::Contains("mount -t cgroup2"));
}

TEST_CASE("only directories that we make count as a sandbox's group") {
  CHECK(is_cgroup_of("/sys/fs/cgroup/pids/dsec/sb-1", "sb-1"));
  for (const char* path : {"/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/dsec/sb-2", "/sys/fs/cgroup/pids/sb-1",
                           "dsec/sb-1", "/sys/fs/cgroup/../dsec/sb-1", "/a/dsec/sb-1/", ""}) {
    CHECK_FALSE(is_cgroup_of(path, "sb-1"));
  }
}
