// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/json.h"
#include "cli/doctor/internal/host.h"

namespace dsec::doctor {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

// A directory that stands for a host's root.
class FakeHost {
 public:
  FakeHost() : dir_(*ScratchDir::create(fs::temp_directory_path())) {}
  FakeHost& file(const std::string& path, const std::string& text) {
    REQUIRE(write_file_atomic(dir_.path(), dir_.path() / path, as_bytes(text)));
    return *this;
  }
  [[nodiscard]] HostFiles files() const { return HostFiles(dir_.path()); }
  [[nodiscard]] const fs::path& path() const { return dir_.path(); }

 private:
  ScratchDir dir_;
};

const Finding& about(const Findings& findings, const std::string& topic) {
  for (const Finding& finding : findings) {
    if (finding.topic == topic) return finding;
  }
  FAIL("no finding about " << topic);
  return findings.front();
}

// What is not fine says what follows and what to do; what is fine says neither.
void check_form(const Findings& findings) {
  for (const Finding& finding : findings) {
    INFO(finding.topic << ": " << finding.found);
    CHECK_FALSE(finding.topic.empty());
    CHECK_FALSE(finding.found.empty());
    CHECK(finding.consequence.empty() == (finding.level == Level::ok));
    CHECK(finding.remedy.empty() == (finding.level == Level::ok));
  }
}

TEST_CASE("an old kernel is missing, a new one is fine") {
  CHECK(examine_kernel(HostFiles(), "5.14.21")[0].level == Level::missing);
  CHECK(examine_kernel(HostFiles(), "5.15.0")[0].level == Level::ok);
  CHECK(examine_kernel(HostFiles(), "weird")[0].level == Level::missing);
}

TEST_CASE("privileges follow the effective capabilities") {
  FakeHost host;
  host.file("proc/self/status", "CapEff:\t000001fffeffffff\n");
  const Findings root = examine_privileges(host.files());
  CHECK(about(root, "privileges").level == Level::ok);
  CHECK(about(root, "resource limits").level == Level::degraded);
  host.file("proc/self/status", "CapEff:\t0000000000000000\n");
  CHECK(about(examine_privileges(host.files()), "privileges").level == Level::missing);
  check_form(root);
}

TEST_CASE("low limits are degraded and the remedy names the setting") {
  FakeHost host;
  host.file("proc/sys/kernel/pid_max", "4096\n").file("proc/sys/fs/mount-max", "100000\n");
  const Findings findings = examine_limits(host.files());
  CHECK(about(findings, "kernel.pid_max").level == Level::degraded);
  CHECK(about(findings, "kernel.pid_max").remedy == "sysctl -w kernel.pid_max=65536");
  CHECK(about(findings, "fs.mount-max").level == Level::ok);
  CHECK(about(findings, "fs.inotify.max_user_instances").level == Level::ok);  // not known here
  check_form(findings);
}

TEST_CASE("namespaces that are switched off are missing") {
  FakeHost host;
  host.file("proc/sys/user/max_pid_namespaces", "0\n");
  const Findings findings = examine_namespaces(host.files());
  CHECK(about(findings, "namespaces").level == Level::missing);
  CHECK_THAT(about(findings, "namespaces").found, Catch::Contains("user.max_pid_namespaces"));
}

TEST_CASE("a host without FUSE is told to load it") {
  FakeHost host;
  host.file("proc/filesystems", "\text4\nnodev\tfusectl\n");
  const Findings findings = examine_fuse(host.files());
  CHECK(about(findings, "fuse").level == Level::missing);
  CHECK_THAT(about(findings, "fuse").remedy, Catch::Contains("modprobe"));
}

TEST_CASE("a host without cgroups, and one whose cgroups are not there, are missing them") {
  FakeHost host;
  host.file("proc/self/mountinfo", "1 0 0:1 / / rw - ext4 /dev/vda rw\n");
  CHECK(about(examine_cgroups(host.files()), "cgroups").level == Level::missing);
  host.file("proc/self/mountinfo", "1 0 0:1 / /nowhere/memory rw - cgroup cgroup rw,memory\n");
  const Findings findings = examine_cgroups(host.files());
  CHECK(about(findings, "cgroups").level == Level::missing);
  CHECK_THAT(about(findings, "cgroups").found, Catch::Contains("/nowhere/memory"));
}

TEST_CASE("storage is described by file system and free space; a runtime path too long for a socket is missing") {
  FakeHost host;
  host.file("proc/self/mountinfo", "1 0 0:1 / / rw - superfs /dev/vda rw\n");
  const Findings findings =
      examine_storage(host.files(), {host.path() / "store", host.path() / std::string(90, 'r'), host.path() / "state"});
  CHECK_THAT(about(findings, "store").found, Catch::Contains("superfs") && Catch::Contains("not made yet"));
  CHECK(about(findings, "runtime directory").level == Level::missing);
  check_form(findings);
}

TEST_CASE("the exit code is 1 only when something is missing") {
  CHECK(exit_code({}) == 0);
  CHECK(exit_code(Findings{fine("a", "b"), degraded("a", "b", "c", "d")}) == 0);
  CHECK(exit_code(Findings{missing("a", "b", "c", "d")}) == 1);
}

TEST_CASE("text and JSON tell the same") {
  const Findings findings{fine("kernel", "6.18"), degraded("io_uring", "off", "slower", "switch \"it\" on")};
  CHECK(to_text(findings) ==
        "ok        kernel    6.18\n"
        "degraded  io_uring  off\n"
        "                    so: slower\n"
        "                    do: switch \"it\" on\n"
        "1 ok, 1 degraded, 0 missing\n");
  const Json json = *parse_json(to_json(findings), "report");
  CHECK(json["ok"] == true);
  CHECK(json["findings"][1]["level"] == "degraded");
  CHECK(json["findings"][1]["remedy"] == "switch \"it\" on");
}

// Where the doctor mounts to find out, in a namespace of its own; others mount and unmount elsewhere meanwhile.
std::size_t mounts_where_it_tries() {
  const auto mounts = *read_mounts();
  return static_cast<std::size_t>(std::count_if(mounts.begin(), mounts.end(), [](const MountEntry& mount) {
    return mount.point == "/tmp" || mount.point.find("dsec-doctor") != std::string::npos;
  }));
}

TEST_CASE("examining this host leaves nothing behind") {
  const FakeHost place;
  const std::size_t mounts = mounts_where_it_tries();
  const Findings findings = examine_host({place.path() / "store", place.path() / "run", place.path() / "state"});
  check_form(findings);
  CHECK(fs::is_empty(place.path()));
  CHECK(mounts_where_it_tries() == mounts);
  for (const auto& entry : fs::directory_iterator("/sys/fs/cgroup")) {
    CHECK_FALSE(fs::exists(entry.path() / fmt::format("dsec-doctor-{}", ::getpid())));
  }
  WARN(to_text(findings));
}

}  // namespace
}  // namespace dsec::doctor
