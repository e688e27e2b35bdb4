// SPDX-License-Identifier: Apache-2.0
// What every cgroup driver must do; run over each that this machine has.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "launcher/internal/cgroup.h"

using namespace dsec;
using namespace dsec::launcher;
using namespace dsec::test;

namespace {

std::vector<std::unique_ptr<CgroupDriver>> drivers() {
  std::vector<std::unique_ptr<CgroupDriver>> found;
  const auto mounts = read_mounts();
  const auto own = read_knob("/proc/self/cgroup");
  REQUIRE((mounts && own));
  for (auto make : {make_cgroup_v1, make_cgroup_v2}) {
    if (auto driver = make(*mounts, *own)) found.push_back(std::move(driver));
  }
  return found;
}

// A process that joins and then sleeps.
pid_t spawn_member(const CgroupJoin& join) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (const Fd& tasks : join.tasks) {
      if (::write(tasks.get(), "0", 1) != 1) ::_exit(1);
    }
    if (join.into.valid()) {
      const Fd procs(::openat(join.into.get(), "cgroup.procs", O_WRONLY));
      if (::write(procs.get(), "0", 1) != 1) ::_exit(1);
    }
    ::signal(SIGTERM, SIG_IGN);
    while (true) ::pause();
  }
  return pid;
}

}  // namespace

TEST_CASE("a group is made, joined, killed and removed", "[launch]") {
  NEED_SANDBOXES();
  int number = 0;
  for (const auto& driver : drivers()) {
    INFO(driver->version());
    const std::string id = fmt::format("contract-{}-{}", ::getpid(), ++number);
    const auto directories = driver->directories(id);
    const auto made = driver->create(id, {});
    if (!made) FAIL(made.error().message);
    for (const auto& directory : directories) {
      CHECK(is_cgroup_of(directory.native(), id));
      CHECK(std::filesystem::is_directory(directory));
    }
    CHECK(driver->create(id, {}).error().code == ErrorCode::exists);
    CHECK(driver->views(id).size() == directories.size());
    CHECK(driver->oom_kills(id).value() == 0);

    const auto join = driver->open_join(id);
    REQUIRE(join);
    const pid_t member = spawn_member(*join);
    for (const auto& directory : directories) {
      CHECK(eventually([&] { return read_text(directory / "cgroup.procs") == std::to_string(member) + "\n"; }));
    }
    // The reaper of our children is this process, so it must reap for the group to become empty.
    const auto killed = kill_cgroups(directories);
    REQUIRE(killed);
    int status = 0;
    REQUIRE(::waitpid(member, &status, 0) == member);
    CHECK(WTERMSIG(status) == SIGKILL);
    const auto removed = remove_cgroups(directories);
    if (!removed) FAIL(removed.error().message);
    for (const auto& directory : directories) CHECK_FALSE(std::filesystem::exists(directory));
    CHECK(remove_cgroups(directories));  // again is fine
  }
}

TEST_CASE("a limit without its controller is refused", "[launch]") {
  NEED_SANDBOXES();
  const auto mounts = read_mounts();
  std::vector<MountEntry> without;
  for (const MountEntry& mount : *mounts) {
    if (mount.type == "cgroup" && mount.options.find("memory") == std::string::npos) without.push_back(mount);
  }
  auto driver = make_cgroup_v1(without, *read_knob("/proc/self/cgroup"));
  if (!driver) SKIP_TEST("no cgroup v1 here");
  Limits limits;
  limits.memory_bytes = 64u << 20;
  const auto made = driver->create("contract-never", limits);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == ErrorCode::unsupported);
  CHECK_THAT(made.error().message, Catch::Contains("memory"));
}
