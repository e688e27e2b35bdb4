// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/spec_json.h"

#include "base/json.h"
#include "base/text.h"
#include "launcher/internal/names.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

constexpr double kMinCpus = 0.01;
constexpr double kMaxCpus = 1e6;

Result<void> check_text(std::string_view what, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return fail(ErrorCode::invalid, "{} holds a NUL byte", what);
  if (!text.empty() && !is_utf8(text)) return fail(ErrorCode::invalid, "{} is no UTF-8: \"{}\"", what, escaped(text));
  return {};
}

Result<void> check_limits(const Limits& limits) {
  if (limits.cpus && !(*limits.cpus >= kMinCpus && *limits.cpus <= kMaxCpus)) {
    return fail(ErrorCode::invalid, "cpus is {}; it must be at least {}", *limits.cpus, kMinCpus);
  }
  if (limits.memory_bytes && (*limits.memory_bytes < kMinMemoryBytes || *limits.memory_bytes > INT64_MAX)) {
    return fail(ErrorCode::invalid, "the memory limit is {} bytes; it must be at least {}", *limits.memory_bytes,
                human_size(kMinMemoryBytes));
  }
  if (limits.pids && (*limits.pids == 0 || *limits.pids > (1u << 22))) {
    return fail(ErrorCode::invalid, "the limit of processes is {}; it must be 1 to 4194304", *limits.pids);
  }
  return {};
}

Result<void> check_environment(const SandboxSpec& spec) {
  for (const auto& [name, value] : spec.env) {
    TRY(check_text("the name of an environment variable", name));
    TRY(check_text(fmt::format("environment variable {}", name), value));
    if (name.empty() || name.find('=') != std::string::npos) {
      return fail(ErrorCode::invalid, "\"{}\" cannot be the name of an environment variable", name);
    }
  }
  return {};
}

Result<void> check_paths(const SandboxSpec& spec) {
  if (spec.lowers.empty()) return fail(ErrorCode::invalid, "a sandbox needs at least one lower directory");
  for (const fs::path& lower : spec.lowers) TRY(check_text("a lower directory", lower.native()));
  if (!spec.workdir.empty() && spec.workdir[0] != '/') {
    return fail(ErrorCode::invalid, "the working directory must be absolute, not \"{}\"", spec.workdir);
  }
  for (const Volume& volume : spec.volumes) {
    TRY(check_text("the source of a volume", volume.source.native()));
    TRY(check_text("the target of a volume", volume.target));
    if (volume.target.empty() || volume.target[0] != '/' || fs::path(volume.target).lexically_normal() == "/") {
      return fail(ErrorCode::invalid, "the target of volume {} must be an absolute path other than /, not \"{}\"",
                  volume.source.native(), volume.target);
    }
  }
  return check_text("the writable root", spec.writable_root.native());
}

}  // namespace

Result<void> validate_spec(const SandboxSpec& spec) {
  if (!spec.id.empty()) TRY(check_name("id", spec.id));
  if (!spec.name.empty()) TRY(check_name("name", spec.name));
  if (!spec.hostname.empty()) TRY(check_name("hostname", spec.hostname));
  if (spec.argv.empty()) return fail(ErrorCode::invalid, "no command to run");
  for (const std::string& arg : spec.argv) TRY(check_text("an argument", arg));
  for (const std::string* text : {&spec.env_ref, &spec.env_digest, &spec.workdir, &spec.user}) {
    TRY(check_text("a member of the specification", *text));
  }
  if (spec.timeout && spec.timeout->count() <= 0) return fail(ErrorCode::invalid, "the timeout must be positive");
  TRY(check_environment(spec));
  TRY(check_paths(spec));
  return check_limits(spec.limits);
}

namespace {

Json volumes_to_json(const SandboxSpec& spec) {
  Json list = Json::array();
  for (const Volume& volume : spec.volumes) {
    list.push_back({{"source", volume.source.native()},
                    {"target", volume.target},
                    {"read_only", volume.access == Volume::Access::read_only}});
  }
  return list;
}

Json limits_to_json(const SandboxSpec& spec) {
  Json limits = Json::object();
  if (spec.limits.cpus) limits["cpus"] = *spec.limits.cpus;
  if (spec.limits.memory_bytes) limits["memory_bytes"] = *spec.limits.memory_bytes;
  if (spec.limits.pids) limits["pids"] = *spec.limits.pids;
  if (spec.timeout) limits["timeout_ms"] = static_cast<std::uint64_t>(spec.timeout->count());
  limits["shm_bytes"] = spec.shm_bytes;
  return limits;
}

}  // namespace

Result<std::string> spec_to_json(const SandboxSpec& spec, std::string_view created_at) {
  Json document = {{"id", spec.id},
                   {"name", spec.name},
                   {"created_at", created_at},
                   {"env_ref", spec.env_ref},
                   {"env_digest", spec.env_digest},
                   {"argv", spec.argv},
                   {"workdir", spec.workdir},
                   {"user", spec.user},
                   {"hostname", spec.hostname},
                   {"network", spec.network == Network::host ? "host" : "none"},
                   {"keep", spec.keep == SandboxSpec::Keep::yes},
                   {"tty", spec.tty == SandboxSpec::Tty::yes},
                   {"writable_root", spec.writable_root.native()},
                   {"volumes", volumes_to_json(spec)},
                   {"limits", limits_to_json(spec)}};
  for (const fs::path& lower : spec.lowers) document["lowers"].push_back(lower.native());
  document["env"] = Json::array();
  for (const auto& [name, value] : spec.env) document["env"].push_back({name, value});
  return canonical_json(document);
}

namespace {

Result<void> limits_from_json(const Json& document, SandboxSpec& spec) {
  const Json limits = TRY(json_object(document, "limits"));
  if (limits.contains("cpus")) {
    if (!limits["cpus"].is_number()) return fail(ErrorCode::invalid, "\"cpus\" must be a number");
    spec.limits.cpus = limits["cpus"].get<double>();
  }
  if (limits.contains("memory_bytes")) spec.limits.memory_bytes = TRY(json_uint(limits, "memory_bytes"));
  if (limits.contains("pids")) spec.limits.pids = TRY(json_uint(limits, "pids"));
  if (limits.contains("timeout_ms")) {
    spec.timeout = std::chrono::milliseconds(TRY(json_int(limits, "timeout_ms")));
  }
  spec.shm_bytes = TRY(json_uint(limits, "shm_bytes"));
  return {};
}

Result<void> lists_from_json(const Json& document, SandboxSpec& spec) {
  for (const std::string& lower : TRY(json_texts(document, "lowers"))) spec.lowers.emplace_back(lower);
  for (const Json& item : TRY(json_array(document, "volumes"))) {
    const bool read_only = TRY(json_bool(item, "read_only"));
    spec.volumes.push_back({TRY(json_text(item, "source")), TRY(json_text(item, "target")),
                            read_only ? Volume::Access::read_only : Volume::Access::read_write});
  }
  for (const Json& item : TRY(json_array(document, "env"))) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_string()) {
      return fail(ErrorCode::invalid, "\"env\" must be a list of pairs of strings");
    }
    spec.env.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
  }
  return {};
}

}  // namespace

Result<SandboxSpec> spec_from_json(std::string_view text) {
  const Json document = TRY(parse_json(text, "the sandbox specification"));
  SandboxSpec spec;
  spec.id = TRY(json_text(document, "id"));
  spec.name = TRY(json_text(document, "name"));
  spec.env_ref = TRY(json_text(document, "env_ref"));
  spec.env_digest = TRY(json_text(document, "env_digest"));
  spec.argv = TRY(json_texts(document, "argv"));
  spec.workdir = TRY(json_text(document, "workdir"));
  spec.user = TRY(json_text(document, "user"));
  spec.hostname = TRY(json_text(document, "hostname"));
  spec.writable_root = TRY(json_text(document, "writable_root"));
  spec.network = TRY(json_text(document, "network")) == "host" ? Network::host : Network::none;
  spec.keep = TRY(json_bool(document, "keep")) ? SandboxSpec::Keep::yes : SandboxSpec::Keep::no;
  spec.tty = TRY(json_bool(document, "tty")) ? SandboxSpec::Tty::yes : SandboxSpec::Tty::no;
  TRY(lists_from_json(document, spec));
  TRY(limits_from_json(document, spec));
  TRY(validate_spec(spec));
  return spec;
}

Result<std::string> created_at_from_json(std::string_view text) {
  const Json document = TRY(parse_json(text, "spec.json"));
  return json_text(document, "created_at");
}

std::string result_to_json(const SandboxResult& result) {
  const SandboxResult::Phases& phases = result.phases;
  const Json document = {{"id", result.id},
                         {"exit_code", result.exit_code},
                         {"signal", result.signal},
                         {"timed_out", result.timed_out},
                         {"oom_killed", result.oom_killed},
                         {"cause", result.cause},
                         {"infra", result.infra},
                         {"message", result.message},
                         {"kept_upper", result.kept_upper.native()},
                         {"phases",
                          {{"prepare_ms", phases.prepare_ms},
                           {"rootfs_ms", phases.rootfs_ms},
                           {"start_ms", phases.start_ms},
                           {"run_ms", phases.run_ms},
                           {"cleanup_ms", phases.cleanup_ms}}}};
  return dump_json(document);
}

Result<SandboxResult> result_from_json(std::string_view text) {
  const Json document = TRY(parse_json(text, "the monitor's answer"));
  SandboxResult result;
  result.id = TRY(json_text(document, "id"));
  result.exit_code = static_cast<int>(TRY(json_int(document, "exit_code")));
  result.signal = static_cast<int>(TRY(json_int(document, "signal")));
  result.timed_out = TRY(json_bool(document, "timed_out"));
  result.oom_killed = TRY(json_bool(document, "oom_killed"));
  result.cause = TRY(json_text(document, "cause"));
  result.infra = TRY(json_bool(document, "infra"));
  result.message = TRY(json_text(document, "message"));
  result.kept_upper = TRY(json_text(document, "kept_upper"));
  const Json phases = TRY(json_object(document, "phases"));
  result.phases.prepare_ms = phases.value("prepare_ms", 0.0);
  result.phases.rootfs_ms = phases.value("rootfs_ms", 0.0);
  result.phases.start_ms = phases.value("start_ms", 0.0);
  result.phases.run_ms = phases.value("run_ms", 0.0);
  result.phases.cleanup_ms = phases.value("cleanup_ms", 0.0);
  return result;
}

}  // namespace dsec::launcher
