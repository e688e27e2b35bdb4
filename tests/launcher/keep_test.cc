// SPDX-License-Identifier: Apache-2.0
// Sandboxes that stay, names, lists, removal.
#include "fixture.h"

using namespace dsec;
using namespace dsec::test;

TEST_CASE("a kept sandbox leaves its writable layer until it is removed", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.shell("echo kept > /file; rm /etc/group; exit 3");
  spec.keep = SandboxSpec::Keep::yes;
  spec.name = "kept-one";
  spec.env_ref = "env:1";
  const auto output = bench.run(spec);
  CHECK(output.result.exit_code == 3);
  CHECK(read_text(output.result.kept_upper / "file") == "kept\n");
  CHECK(std::filesystem::is_character_file(output.result.kept_upper / "etc/group"));

  REQUIRE(sweep_orphans());
  const auto list = list_sandboxes();
  REQUIRE(list);
  REQUIRE(list->size() == 1);
  CHECK(list->front().state == "kept");
  CHECK(list->front().name == "kept-one");
  CHECK(list->front().env_ref == "env:1");
  CHECK(list->front().argv == spec.argv);
  CHECK(list->front().upper == output.result.kept_upper);

  REQUIRE(remove_sandbox("kept-one", Force::no));
  wait_for_removals();
  CHECK(bench.leftovers() == std::vector<std::string>{});
  const auto again = remove_sandbox("kept-one", Force::no);
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::not_found);
}

TEST_CASE("the writable layer can be elsewhere", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.shell("echo x > /file");
  spec.writable_root = bench.dir() / "elsewhere";
  spec.keep = SandboxSpec::Keep::yes;
  const auto kept = bench.run(spec);
  CHECK(kept.result.kept_upper == spec.writable_root / spec.id / "upper");
  CHECK(read_text(kept.result.kept_upper / "file") == "x\n");
  const auto removed = remove_sandbox(spec.id, Force::no);
  if (!removed) FAIL(removed.error().message);
  CHECK(std::filesystem::is_empty(spec.writable_root));

  spec.id = bench.next_id();
  spec.keep = SandboxSpec::Keep::no;
  CHECK(bench.run(spec).result.exit_code == 0);
  CHECK(std::filesystem::is_empty(spec.writable_root));
}

TEST_CASE("a name or id in use is refused, and free again afterwards", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec first = bench.command({"true"});
  first.name = "taken";
  first.keep = SandboxSpec::Keep::yes;
  CHECK(bench.run(first).result.exit_code == 0);

  SandboxSpec second = bench.command({"true"});
  second.name = "taken";
  auto output = bench.run(second);
  CHECK(output.result.infra);
  CHECK(output.result.cause == "infra_state");
  CHECK_THAT(output.result.message, Catch::Contains("taken") && Catch::Contains(first.id));

  SandboxSpec same_id = bench.command({"true"});
  same_id.id = first.id;
  CHECK(bench.run(same_id).result.cause == "infra_state");
  CHECK(std::filesystem::exists(bench.sandboxes() / first.id / "upper"));

  REQUIRE(remove_sandbox("taken", Force::no));
  second.id = first.id;
  CHECK(bench.run(second).result.exit_code == 0);
  CHECK(bench.run(second).result.exit_code == 0);  // at once, though the files of the last one may still be deleted
  wait_for_removals();
  CHECK(bench.leftovers() == std::vector<std::string>{});
}

TEST_CASE("a running sandbox is listed, and removed only by force", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string id = bench.next_id();
  ChildProcess client = bench.start_client(id, {}, {"sh", "-c", "trap '' TERM INT; sleep 1000; sleep 1000"});
  const SandboxInfo info = bench.wait_running(id);
  CHECK(info.monitor_pid > 0);
  CHECK_THAT(read_text(fmt::format("/proc/{}/cmdline", info.init_pid)), Catch::StartsWith("/dev/.dsec-init"));
  CHECK(info.created_at.size() == 20);

  const auto refused = remove_sandbox(id, Force::no);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::exists);
  REQUIRE(remove_sandbox(id, Force::yes));
  const auto ended = client.wait();
  REQUIRE(ended);
  CHECK(ended->code == 137);
  CHECK_THAT(bench.client_result(id), Catch::StartsWith("137 cancelled"));
  CHECK(bench.leftovers_soon() == std::vector<std::string>{});
}

TEST_CASE("hostile names are refused", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  for (const char* name : {"../up", "a/b", ".hidden", "", "-dash", "a b", "x\n"}) {
    CHECK_FALSE(remove_sandbox(name, Force::yes));
    SandboxSpec spec = bench.command({"true"});
    spec.name = *name == '\0' ? "." : name;
    CHECK_FALSE(run_sandbox(spec));
  }
}
