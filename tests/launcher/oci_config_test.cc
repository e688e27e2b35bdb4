// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/oci_config.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/json.h"

using namespace dsec;
using namespace dsec::launcher;

namespace {

SandboxSpec sample() {
  SandboxSpec spec;
  spec.id = "sb-1";
  spec.lowers = {"/lower"};
  spec.argv = {"echo", "a b", ""};
  spec.volumes = {{"/", "/data", Volume::Access::read_only}, {"/dev/null", "/file", Volume::Access::read_only}};
  return spec;
}

OciInputs inputs() {
  OciInputs in;
  in.root = "/scratch/merged";
  in.init = "/usr/bin/dsec-init";
  in.etc = "/scratch/etc";
  in.cgroup_top = "/scratch/cgroup";
  in.cgroup_views = {{"/sys/fs/cgroup/memory/dsec/sb-1", "memory"}};
  in.seccomp_base64 = "AAAA";
  in.max_open_files = 20000;
  return in;
}

Json document(const SandboxSpec& spec, const OciInputs& in) { return Json::parse(oci_config(spec, in).value()); }

Json find_mount(const Json& document, const std::string& target) {
  for (const Json& mount : document["mounts"]) {
    if (mount["destination"] == target) return mount;
  }
  return {};
}

}  // namespace

TEST_CASE("the document has the shape that the runtime specification asks for") {
  const Json config = document(sample(), inputs());
  CHECK(config["ociVersion"] == "1.0.2");
  CHECK(config["root"]["path"] == "/scratch/merged");
  CHECK(config["process"]["args"] == Json({kInitInside, "pipe", "echo", "a b", ""}));
  CHECK(config["process"]["cwd"] == "/");
  CHECK(config["process"]["noNewPrivileges"] == true);
  CHECK(config["process"]["rlimits"] == Json::parse(R"([{"type":"RLIMIT_NOFILE","soft":20000,"hard":20000}])"));
  CHECK(config["hostname"] == "sb-1");
  CHECK(config["annotations"]["run.oci.seccomp_bpf_data"] == "AAAA");
  CHECK(config["linux"]["namespaces"].size() == 6);
  CHECK(find_mount(config, "/data")["options"] == Json({"rbind", "rprivate", "ro", "rro"}));
  CHECK(find_mount(config, "/file")["options"] == Json({"rbind", "rprivate", "ro"}));
  CHECK(find_mount(config, "/etc/hosts")["source"] == "/scratch/etc/hosts");
  CHECK(find_mount(config, "/sys/fs/cgroup/memory")["source"] == "/sys/fs/cgroup/memory/dsec/sb-1");
  for (const Json& rule : config["linux"]["seccomp"]["syscalls"]) {
    CHECK(rule["names"].is_array());
    if (rule.contains("args")) CHECK(rule["args"][0].is_object());
  }
  CHECK(oci_config(sample(), inputs()).value() == oci_config(sample(), inputs()).value());
}

TEST_CASE("capabilities are the fourteen; none is held by other users") {
  Json caps = document(sample(), inputs())["process"]["capabilities"];
  CHECK(caps["bounding"].size() == 14);
  CHECK(caps["effective"].size() == 14);
  CHECK(caps["inheritable"].empty());
  OciInputs other = inputs();
  other.user.uid = 1000;
  caps = document(sample(), other)["process"]["capabilities"];
  CHECK(caps["bounding"].size() == 14);
  CHECK(caps["permitted"].empty());
  CHECK(caps["effective"].empty());
}

TEST_CASE("the host's network is no namespace, version 2 groups are mounted by the runtime") {
  SandboxSpec spec = sample();
  spec.network = Network::host;
  OciInputs in = inputs();
  in.cgroup_views = {{"/sys/fs/cgroup/dsec/sb-1", ""}};
  const Json config = document(spec, in);
  for (const Json& space : config["linux"]["namespaces"]) CHECK(space["type"] != "network");
  CHECK(find_mount(config, "/sys/fs/cgroup")["type"] == "cgroup");
}

TEST_CASE("the environment's later values win and keep their place") {
  SandboxSpec spec = sample();
  spec.tty = SandboxSpec::Tty::yes;
  spec.env = {{"PATH", "/p"}, {"X", "1"}, {"X", "2"}};
  ImageUser user;
  user.home = "/home/u";
  CHECK(command_environment(spec, user) ==
        std::vector<std::string>{"PATH=/p", "HOSTNAME=sb-1", "HOME=/home/u", "TERM=xterm", "X=2"});
}
