// SPDX-License-Identifier: Apache-2.0
// Environment, working directory, users, volumes, files in /etc.
#include <sys/mount.h>
#include <sys/stat.h>

#include "fixture.h"

using namespace dsec;
using namespace dsec::test;

TEST_CASE("the environment is Docker's, then the specification's", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.command({"probe", "environ"});
  spec.env = {{"A", "1"}, {"EMPTY", ""}, {"WITH", "a=b c\n\"x\""}, {"HOME", "/elsewhere"}};
  spec.hostname = "box";
  const auto output = bench.run(spec);
  CHECK(output.out ==
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nHOSTNAME=box\nHOME=/elsewhere\n"
        "A=1\nEMPTY=\nWITH=a=b c\n\"x\"\n");
  spec = bench.shell("hostname; cat /etc/hostname; grep -c box /etc/hosts");
  spec.hostname = "box";
  CHECK(bench.run(spec).out == "box\nbox\n1\n");
}

TEST_CASE("the working directory is made when missing, inside the root whatever links say", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.shell("pwd; stat -c '%u:%g %a' .");
  spec.workdir = "/made/for/this";
  CHECK(bench.run(spec).out == "/made/for/this\n0:0 755\n");
  CHECK_FALSE(std::filesystem::exists(bench.root() / "made"));

  const std::filesystem::path outside = bench.dir() / "outside";
  std::filesystem::create_directory(outside);
  std::filesystem::create_symlink(outside, bench.root() / "absolute");
  std::filesystem::create_symlink("../../../../../.." + outside.native(), bench.root() / "relative");
  for (const char* link : {"/absolute/x", "/relative/x"}) {
    spec = bench.command({"true"});
    spec.workdir = link;
    bench.run(spec);
    CHECK(std::filesystem::is_empty(outside));
  }
}

TEST_CASE("users and groups are the image's", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const auto as = [&](const std::string& user) {
    SandboxSpec spec = bench.shell("id -u; id -g; id -G; echo $HOME");
    spec.user = user;
    return bench.run(spec).out;
  };
  CHECK(as("") == "0\n0\n0 44\n/root\n");
  CHECK(as("user") == "1000\n1001\n1001 44 50\n/home/user\n");
  CHECK(as("1000") == "1000\n1001\n1001 44 50\n/home/user\n");
  CHECK(as("user:video") == "1000\n44\n44\n/home/user\n");
  CHECK(as("77:88") == "77\n88\n88\n/\n");
  CHECK(as("77") == "77\n0\n0\n/\n");
}

TEST_CASE("volumes are the host's directories and files", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::filesystem::path source = bench.dir() / "source: with, odd\\name";
  write_text(source / "file", "from the host\n");
  SandboxSpec spec = bench.shell("cat /data/file; echo new > /data/made && cat /one");
  spec.volumes = {{source, "/data", Volume::Access::read_write}, {source / "file", "/one", Volume::Access::read_only}};
  const auto written = bench.run(spec);
  CHECK(written.out == "from the host\nfrom the host\n");
  CHECK(read_text(source / "made") == "new\n");

  REQUIRE(::mkdir((source / "below").c_str(), 0755) == 0);
  REQUIRE(::mount("none", (source / "below").c_str(), "tmpfs", 0, nullptr) == 0);
  spec = bench.shell("cat /data/file; touch /data/x; touch /data/below/x; touch /one; ls /data");
  spec.volumes = {{source, "/data", Volume::Access::read_only}, {source / "file", "/one", Volume::Access::read_only}};
  const auto refused = bench.run(spec);
  ::umount2((source / "below").c_str(), MNT_DETACH);
  CHECK(refused.out == "from the host\nbelow\nfile\nmade\n");
  CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 3);
}

TEST_CASE("a root without /tmp, /proc and /etc files gets them, dangling links are replaced", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  for (const char* name : {"tmp", "proc", "sys", "dev"}) std::filesystem::remove(bench.root() / name);
  std::filesystem::create_symlink("../run/resolver/stub.conf", bench.root() / "etc/resolv.conf");
  std::filesystem::create_symlink("/nowhere/at/all", bench.root() / "etc/hosts");
  const auto output = bench.run_shell(
      "stat -c %a /tmp; grep -c localhost /etc/hosts; wc -c < /etc/resolv.conf; test -e /proc/1 && echo proc");
  CHECK(output.out == "1777\n2\n0\nproc\n");
  CHECK(std::filesystem::is_symlink(bench.root() / "etc/hosts"));
}

TEST_CASE("the host's network brings its resolver and hosts", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.shell("cat /etc/resolv.conf /etc/hosts; ls /sys/class/net");
  spec.network = Network::host;
  const auto output = bench.run(spec);
  CHECK_THAT(output.out, Catch::StartsWith(read_text("/etc/resolv.conf") + read_text("/etc/hosts")));
  CHECK_THAT(output.out, Catch::Contains("lo\n"));
}

TEST_CASE("several lower directories stack, the last on top", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::filesystem::path top = bench.dir() / "top:with,odd\\name";
  write_text(top / "etc/who", "top\n");
  write_text(bench.root() / "etc/who", "bottom\n");
  write_text(bench.root() / "etc/below", "seen\n");
  SandboxSpec spec = bench.shell("cat /etc/who /etc/below");
  spec.lowers = {bench.root(), top};
  CHECK(bench.run(spec).out == "top\nseen\n");
}
