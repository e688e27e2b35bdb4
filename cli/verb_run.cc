// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>

#include "base/atomic_file.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/prefetch_wait.h"
#include "cli/rootfs_mode.h"
#include "cli/verbs.h"
#include "control/client.h"
#include "launcher/sandbox.h"
#include "store/store.h"

namespace dsec::cli {

using control::Client;
using format::RunConfig;

namespace {

// -e NAME=VALUE, or -e NAME for the value that we have ourselves.
Result<void> add_variables(SandboxSpec& spec, const std::vector<std::string>& variables) {
  format::Variables given;
  for (const std::string& text : variables) {
    TRY_IN("--env", check_variable(text));
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) {
      given.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    } else if (const char* value = std::getenv(text.c_str())) {
      given.emplace_back(text, value);
    }
  }
  format::set_variables(spec.env, given);
  return {};
}

Result<void> set_command(SandboxSpec& spec, const RunArgs& args, const RunConfig& config) {
  spec.argv = args.command;
  if (spec.argv.empty()) {
    spec.argv = config.entrypoint;
    spec.argv.insert(spec.argv.end(), config.cmd.begin(), config.cmd.end());
  }
  if (spec.argv.empty()) {
    return fail(ErrorCode::invalid, "{} has no command of its own: give one after the name", args.env);
  }
  return {};
}

Result<void> set_limits(SandboxSpec& spec, const RunArgs& args) {
  spec.limits.cpus = args.cpus;
  spec.limits.pids = args.pids;
  if (!args.memory.empty()) spec.limits.memory_bytes = TRY_IN("--memory", parse_memory_limit(args.memory));
  if (!args.shm_size.empty()) spec.shm_bytes = TRY_IN("--shm-size", parse_some_bytes(args.shm_size));
  if (!args.timeout.empty()) spec.timeout = TRY_IN("--timeout", parse_some_time(args.timeout));
  return {};
}

Result<SandboxSpec> spec_of(const RunArgs& args, const Digest& env, const RunConfig& config) {
  SandboxSpec spec;
  spec.id = new_sandbox_id();
  spec.name = args.name;
  spec.env_ref = args.env;
  spec.env_digest = env.hex();
  spec.env = config.env;
  TRY(add_variables(spec, args.variables));
  TRY(set_command(spec, args, config));
  TRY(set_limits(spec, args));
  for (const std::string& volume : args.volumes) spec.volumes.push_back(TRY_IN("--volume", parse_volume(volume)));
  spec.workdir = args.workdir.empty() ? config.workdir : args.workdir;
  spec.user = args.user.empty() ? config.user : args.user;
  spec.hostname = args.hostname;
  spec.network = args.network == "host" ? Network::host : Network::none;
  spec.keep = args.keep ? SandboxSpec::Keep::yes : SandboxSpec::Keep::no;
  spec.tty = args.tty ? SandboxSpec::Tty::yes : SandboxSpec::Tty::no;
  return spec;
}

Json to_json(const SandboxResult& result, const SandboxSpec& spec, double attach_ms, double prefetch_ms,
             std::uint64_t bytes_fetched) {
  Json document = {{"id", result.id},
                   {"env", spec.env_digest},
                   {"exit_code", result.exit_code},
                   {"signal", result.signal},
                   {"timed_out", result.timed_out},
                   {"oom_killed", result.oom_killed},
                   {"cause", result.cause},
                   {"infra", result.infra},
                   {"bytes_fetched", bytes_fetched},
                   {"durations_ms",
                    {{"attach", attach_ms},
                     {"prefetch", prefetch_ms},
                     {"prepare", result.phases.prepare_ms},
                     {"rootfs", result.phases.rootfs_ms},
                     {"start", result.phases.start_ms},
                     {"run", result.phases.run_ms},
                     {"cleanup", result.phases.cleanup_ms}}}};
  if (!result.message.empty()) document["message"] = result.message;
  if (!result.kept_upper.empty()) document["upper"] = result.kept_upper.native();
  return document;
}

// A tree that is attached for one sandbox.
class AttachedEnv {
 public:
  static Result<AttachedEnv> attach(const store::Store& store, const Digest& env, const std::string& id,
                                    control::RootfsMode mode, control::Purpose purpose) {
    Client client = TRY(Client::connect(store.root(), Client::Start::on_demand));
    const std::string owner = "sandbox:" + id;
    auto tree =
        TRY(client.attach(env, control::TreeView::overlay, owner, Client::Lease::with_connection, mode, purpose));
    auto before = TRY(client.usage(env));
    return AttachedEnv(std::move(client), env, owner, std::move(tree), before);
  }

  void use_in(SandboxSpec& spec) const {
    spec.lowers = {tree_.path};
    spec.lower_mount = tree_.objects_root.get();
  }
  void describe_in(Json& record) const {
    record["rootfs_mode"] = tree_.objects_root.valid() ? "objects" : "tree";
    if (!tree_.why_not.empty()) record["rootfs_reason"] = tree_.why_not;
  }

  Result<void> fetch_all(bool json) {
    TRY(fetch_ahead(client_, env_, control::Fetch::all, json));
    return {};
  }

  // Keeps what the command read for the next ones, if that is what it was attached for.
  void store_trace(const SandboxResult& result, const RunArgs& args, Json& record) {
    if (!tree_.recorded) return;
    const bool is_model = result.cause == "exit" && (args.record || result.exit_code == 0);
    if (!is_model && args.record) fmt::print(stderr, "dsec: not recorded: the command did not end by itself\n");
    if (!is_model) return;
    const auto trace = client_.store_trace(owner_);
    const bool stored = trace && trace->stored;
    if (stored || args.record) record["recorded"] = stored;
    if (stored) record["trace"] = {{"chunks", trace->chunks}, {"stored_bytes", trace->stored_bytes}};
    if (!args.record) return;  // nobody asked for it: lazyfsd's log says why not
    if (stored) {
      fmt::print(stderr, "dsec: recorded {} chunks, {}\n", trace->chunks, human_size(trace->stored_bytes));
    } else {
      fmt::print(stderr, "dsec: not recorded: {}\n", trace ? trace->reason : trace.error().message);
    }
  }

  // What came from the store since; ends the use.
  Result<std::uint64_t> finish() {
    const auto now = TRY(client_.usage(env_));
    TRY(client_.detach(owner_));
    // A lazyfsd that was started again counts from nothing.
    return now.store_bytes >= before_.store_bytes ? now.store_bytes - before_.store_bytes : now.store_bytes;
  }

 private:
  AttachedEnv(Client client, const Digest& env, std::string owner, control::AttachedTree tree,
              control::TreeUsage before)
      : client_(std::move(client)), env_(env), owner_(std::move(owner)), tree_(std::move(tree)), before_(before) {}

  Client client_;
  Digest env_;
  std::string owner_;
  control::AttachedTree tree_;
  control::TreeUsage before_;
};

Result<void> write_record(const RunArgs& args, const Json& record) {
  const std::string line = dump_json(record) + "\n";
  if (args.common.json) fmt::print(stderr, "{}", line);
  if (args.json_file.empty()) return {};
  const std::filesystem::path path = std::filesystem::absolute(args.json_file);
  return write_file_atomic(path.parent_path(), path, as_bytes(line));
}

using Milliseconds = std::chrono::duration<double, std::milli>;

// Recording is seen to by lazyfsd, in a tree of its own.
Result<control::RootfsMode> root_of(const RunArgs& args) {
  const auto mode = TRY(parse_rootfs_mode(args.rootfs_mode));
  if (!args.record) return mode;
  if (mode == control::RootfsMode::objects) {
    return fail(ErrorCode::invalid, "--record works in tree mode only: leave --rootfs-mode out");
  }
  return control::RootfsMode::tree;
}

// Everything up to the record.
Result<int> run_sandboxed(const RunArgs& args) {
  const auto started = std::chrono::steady_clock::now();
  const store::Store store = TRY(store::Store::open(default_store(args.common.store)));
  const Digest digest = TRY(store.resolve(format::RefKind::env, args.env));
  const format::Env env = TRY(store.read_env(digest));
  SandboxSpec spec = TRY(spec_of(args, digest, env.config));
  const auto mode = TRY(root_of(args));
  const auto purpose = args.record ? control::Purpose::record : control::Purpose::run;
  AttachedEnv attached = TRY(AttachedEnv::attach(store, digest, spec.id, mode, purpose));
  attached.use_in(spec);
  const Milliseconds attach_ms = std::chrono::steady_clock::now() - started;
  if (args.eager) TRY(attached.fetch_all(args.common.json));
  const Milliseconds prefetch_ms = std::chrono::steady_clock::now() - started - attach_ms;

  auto result = run_sandbox(spec);
  Json trace = Json::object();
  if (result) attached.store_trace(*result, args, trace);
  const auto fetched = attached.finish();
  if (!result) return tl::unexpected(result.error());
  if (!result->message.empty()) fmt::print(stderr, "dsec: {}\n", result->message);
  if (!result->kept_upper.empty()) {
    fmt::print(stderr, "dsec: kept {} with its changes in {}\n", result->id, result->kept_upper.native());
  }
  Json record = to_json(*result, spec, attach_ms.count(), args.eager ? prefetch_ms.count() : 0, fetched.value_or(0));
  record.update(trace);
  attached.describe_in(record);
  TRY(write_record(args, record));
  return result->exit_code;
}

}  // namespace

Result<int> run_verb(const RunArgs& args) {
  auto code = run_sandboxed(args);
  if (code || (!args.common.json && args.json_file.empty())) return code;
  // It never came to a sandbox: the record says so, and that the command is not to blame.
  fmt::print(stderr, "dsec: {}\n", code.error().message);
  TRY(write_record(args, {{"exit_code", kExitFailure},
                          {"signal", 0},
                          {"timed_out", false},
                          {"oom_killed", false},
                          {"cause", "infra_setup"},
                          {"infra", true},
                          {"error", to_string(code.error().code)},
                          {"message", code.error().message},
                          {"bytes_fetched", 0}}));
  return kExitFailure;
}

}  // namespace dsec::cli
