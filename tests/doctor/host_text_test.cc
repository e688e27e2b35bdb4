// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "cli/doctor/internal/host_text.h"

namespace dsec::doctor {
namespace {

TEST_CASE("kernel releases are compared by their first two numbers") {
  CHECK(parse_kernel_release("6.18.44-amd64") == KernelVersion{6, 18});
  CHECK(parse_kernel_release("5.15") == KernelVersion{5, 15});
  CHECK(parse_kernel_release("6.1-rc3") == KernelVersion{6, 1});
  CHECK(*parse_kernel_release("6.9.0") > *parse_kernel_release("6.1.200"));
  CHECK_FALSE(parse_kernel_release("linux"));
  CHECK_FALSE(parse_kernel_release("6"));
  CHECK_FALSE(parse_kernel_release("x.1"));
  CHECK_FALSE(parse_kernel_release("6.x"));
  CHECK_FALSE(parse_kernel_release(""));
}

TEST_CASE("a number is a number and nothing else") {
  CHECK(parse_number(" 42\n") == 42);
  CHECK_FALSE(parse_number("42k"));
  CHECK_FALSE(parse_number("-1"));
  CHECK_FALSE(parse_number("\n"));
  CHECK_FALSE(parse_number("18446744073709551616"));
}

TEST_CASE("a file system type is a whole word of its line") {
  const char* text = "nodev\tsysfs\n\text4\nnodev\tfusectl\n\tfuseblk\nnodev\toverlay\n";
  CHECK(lists_filesystem(text, "ext4"));
  CHECK(lists_filesystem(text, "overlay"));
  CHECK_FALSE(lists_filesystem(text, "fuse"));
  CHECK_FALSE(lists_filesystem("", "ext4"));
}

TEST_CASE("effective capabilities come from their own line") {
  CHECK(effective_capabilities("Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t000001fffeffffff\n") == 0x1fffeffffff);
  CHECK(effective_capabilities("CapEff:\tzz\n") == 0);
  CHECK(effective_capabilities("") == 0);
}

TEST_CASE("cgroup layouts are told apart") {
  const MountEntry memory{"", "/", "/sys/fs/cgroup/memory", "cgroup", "rw,memory"};
  const MountEntry cpu{"", "/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct"};
  const MountEntry named{"", "/", "/sys/fs/cgroup/systemd", "cgroup", "rw,name=systemd"};
  const MountEntry unified{"", "/", "/sys/fs/cgroup/unified", "cgroup2", "rw"};
  CHECK(cgroup_layout({}).kind == CgroupLayout::Kind::none);
  CHECK(cgroup_layout({named}).kind == CgroupLayout::Kind::none);
  CHECK(cgroup_layout({unified}).kind == CgroupLayout::Kind::v2);
  CHECK(cgroup_layout({memory}).kind == CgroupLayout::Kind::v1);
  const CgroupLayout hybrid = cgroup_layout({memory, cpu, named, unified});
  CHECK(hybrid.kind == CgroupLayout::Kind::hybrid);
  CHECK(hybrid.v1.at("cpu") == "/sys/fs/cgroup/cpu,cpuacct");
  CHECK(hybrid.v1.count("pids") == 0);
  CHECK(hybrid.unified == "/sys/fs/cgroup/unified");
}

TEST_CASE("our own group is found by controller") {
  const char* text = "5:cpu,cpuacct:/user/1\n4:memory:/docker/abc\n1:name=systemd:/\n0::/init.scope\n";
  CHECK(own_group(text, "memory") == "/docker/abc");
  CHECK(own_group(text, "cpuacct") == "/user/1");
  CHECK(own_group(text, "") == "/init.scope");
  CHECK(own_group(text, "pids") == "/");
}

Bytes init_request(std::uint32_t opcode, std::uint32_t flags, std::uint32_t flags2) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(std::uint32_t{104});
  writer.put(opcode);
  writer.put_zeros(32);
  for (const std::uint32_t value : {7u, 45u, 131072u, flags, flags2}) writer.put(value);
  return bytes;
}

TEST_CASE("what the kernel offers is read from its INIT request") {
  constexpr std::uint32_t kExt = 1u << 30;
  const auto full = parse_fuse_init(init_request(26, kExt, 1u << 5 | 1u << 7 | 1u << 9));
  REQUIRE(full);
  CHECK(full->minor == 45);
  CHECK((full->resend && full->passthrough && full->io_uring));
  const auto old = parse_fuse_init(init_request(26, 0, ~0u));
  REQUIRE(old);
  CHECK_FALSE((old->resend || old->passthrough || old->io_uring));
  CHECK_FALSE(parse_fuse_init(init_request(1, 0, 0)));
  Bytes cut = init_request(26, kExt, 0);
  cut.resize(50);
  CHECK_FALSE(parse_fuse_init(cut));
  CHECK_FALSE(parse_fuse_init({}));
}

TEST_CASE("crun's version is the rest of its first line") {
  CHECK(parse_crun_version("crun version 1.8.1\ncommit: f8a096be\n") == "1.8.1");
  CHECK(parse_crun_version("runc version 1.1.5\n").empty());
  CHECK(parse_crun_version("").empty());
}

}  // namespace
}  // namespace dsec::doctor
