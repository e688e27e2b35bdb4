// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <thread>

#include "base/log.h"
#include "launcher/internal/cgroup.h"
#include "launcher/internal/require_root.h"
#include "launcher/internal/spec_json.h"
#include "launcher/internal/state.h"
#include "launcher/internal/sweep.h"
#include "launcher/sandbox.h"

namespace dsec {

namespace launcher {

namespace {

using std::chrono::steady_clock;
constexpr std::chrono::seconds kLockPatience{5};
constexpr std::chrono::milliseconds kLockPause{2};

// The lock of a sandbox whose monitor is dead or about to be. Nothing when the sandbox is gone.
Result<std::optional<SandboxDir>> adopt_within(const std::string& id, std::chrono::milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  while (true) {
    Result<std::optional<SandboxDir>> dir = SandboxDir::adopt(id);
    if (!dir && dir.error().code == ErrorCode::not_found) return std::optional<SandboxDir>();
    if (!dir || *dir) return dir;
    if (steady_clock::now() > deadline) return fail(ErrorCode::timeout, "sandbox {} does not end", id);
    std::this_thread::sleep_for(kLockPause);
  }
}

// Asks a living monitor to end its sandbox, or ends the monitor.
void signal_monitor(const std::string& id, int signal) {
  const std::optional<LiveSandbox> before = live_sandbox(id);
  if (!before || before->monitor <= 0) return;
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, before->monitor, 0)));
  // Still the same owner after we have hold of the process: then the process is that owner.
  const std::optional<LiveSandbox> after = live_sandbox(id);
  if (!pidfd.valid() || !after || after->monitor != before->monitor) return;
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

// What is dead and not kept, with its lock held by us from now on.
struct Orphans {
  std::vector<SandboxDir> sandboxes;
  std::vector<SandboxDir> trash;
};

void collect(const std::string& name, Result<std::optional<SandboxDir>> dir, std::vector<SandboxDir>& found,
             SweepReport& report) {
  if (dir && *dir && !(*dir)->is_kept()) found.push_back(std::move(**dir));
  if (!dir && dir.error().code != ErrorCode::not_found) {
    report.failures.push_back(fmt::format("{}: {}", name, dir.error().message));
  }
}

Result<Orphans> collect_orphans(SweepReport& report) {
  Orphans found;
  const StateLock all = TRY(StateLock::acquire());
  for (const std::string& id : TRY(sandbox_ids())) collect(id, SandboxDir::adopt(id), found.sandboxes, report);
  for (const std::string& entry : TRY(trash_entries())) {
    collect(entry, SandboxDir::adopt_trash(entry), found.trash, report);
  }
  return found;
}

void note(SweepReport& report, const std::string& id, const Result<void>& removed) {
  if (removed)
    report.removed.push_back(id);
  else
    report.failures.push_back(fmt::format("{}: {}", id, removed.error().message));
}

}  // namespace

void sweep_now_and_then() {
  const std::filesystem::path stamp = sandboxes_dir() / ".swept";
  struct stat st {};
  if (::stat(stamp.c_str(), &st) == 0 && std::time(nullptr) - st.st_mtime < kSweepInterval.count() &&
      st.st_mtime <= std::time(nullptr)) {
    return;
  }
  const Result<SweepReport> report = sweep_orphans();
  if (!report) return log(LogLevel::warn, "sweep_failed", {{"reason", report.error().message}});
  for (const std::string& failure : report->failures) log(LogLevel::warn, "sweep_incomplete", {{"sandbox", failure}});
}

Result<void> sweep_one(const std::string& id) {
  std::optional<SandboxDir> dir = TRY(adopt_within(id, kLockPatience));
  if (!dir) return {};
  return dir->destroy();
}

}  // namespace launcher

using namespace launcher;  // NOLINT(google-build-using-namespace): this file is its front

Result<SweepReport> sweep_orphans() {
  TRY(require_root());
  TRY(make_sandboxes_dir());
  TRY(write_small_file(sandboxes_dir() / ".swept", "", 0600));
  ::utimensat(AT_FDCWD, (sandboxes_dir() / ".swept").c_str(), nullptr, 0);
  SweepReport report;
  Orphans orphans = TRY(collect_orphans(report));
  for (SandboxDir& orphan : orphans.sandboxes) note(report, orphan.id(), orphan.destroy());
  for (SandboxDir& rest : orphans.trash) note(report, rest.id(), rest.remove());
  return report;
}

Result<void> remove_sandbox(const std::string& id_or_name, Force force) {
  TRY(require_root());
  const std::string id = TRY(resolve_id(id_or_name));
  if (live_sandbox(id)) {
    if (force == Force::no) {
      return fail(ErrorCode::exists, "sandbox {} is running; \"dsec rm --force {}\" kills it", id, id_or_name);
    }
    signal_monitor(id, SIGTERM);
  }
  Result<std::optional<SandboxDir>> dir = adopt_within(id, kCgroupPatience + kLockPatience);
  if (!dir && dir.error().code == ErrorCode::timeout) {
    signal_monitor(id, SIGKILL);
    dir = adopt_within(id, kLockPatience);
  }
  if (!dir) return tl::unexpected(dir.error());
  return *dir ? (*dir)->destroy() : Result<void>();
}

namespace {

std::string state_of(const std::string& id, const std::optional<LiveSandbox>& live) {
  if (live) return live->init > 0 ? "running" : "starting";
  return ::access((sandboxes_dir() / id / "result.json").c_str(), F_OK) == 0 ? "kept" : "dead";
}

void describe(const SandboxSpec& spec, const std::filesystem::path& dir, SandboxInfo& info) {
  info.name = spec.name;
  info.env_ref = spec.env_ref;
  info.env_digest = spec.env_digest;
  info.argv = spec.argv;
  info.upper = writable_dir(spec, dir) / "upper";
}

}  // namespace

Result<std::vector<SandboxInfo>> list_sandboxes() {
  TRY(require_root());
  std::vector<SandboxInfo> list;
  for (const std::string& id : TRY(sandbox_ids())) {
    const std::filesystem::path dir = sandboxes_dir() / id;
    const Result<std::string> text = read_small_file(dir / "spec.json");
    if (!text) continue;  // appearing or disappearing
    const std::optional<LiveSandbox> live = live_sandbox(id);
    SandboxInfo info;
    info.id = id;
    if (live) info.monitor_pid = live->monitor;
    if (live) info.init_pid = live->init;
    info.state = state_of(id, live);
    // Another version may have written it; what is alive must be shown even so.
    if (const Result<SandboxSpec> spec = spec_from_json(*text)) describe(*spec, dir, info);
    info.created_at = created_at_from_json(*text).value_or("");
    list.push_back(std::move(info));
  }
  return list;
}

}  // namespace dsec
