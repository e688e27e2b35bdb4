// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/monitor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/paths.h"
#include "base/text.h"
#include "launcher/internal/remove_tree.h"
#include "launcher/internal/require_root.h"
#include "launcher/internal/spec_json.h"
#include "launcher/internal/state.h"
#include "launcher/monitor/outcome.h"
#include "launcher/monitor/rootfs.h"
#include "launcher/monitor/runtime.h"
#include "launcher/monitor/supervise.h"

namespace dsec::launcher {

namespace {

using std::chrono::steady_clock;

// Milliseconds since the last lap.
class Stopwatch {
 public:
  double lap() { return lap(steady_clock::now()); }
  double lap(steady_clock::time_point now) {
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  steady_clock::time_point last_ = steady_clock::now();
};

class Monitor {
 public:
  Monitor(const SandboxSpec& spec, const Fd& control) : spec_(spec), control_(control) {}

  SandboxResult run() {
    SandboxResult result = run_until_ended();
    if (dir_) clean_up(result);
    phases_.cleanup_ms = watch_.lap();
    result.id = spec_.id;
    result.phases = phases_;
    return result;
  }

  // Deletes the writable layer. Failures are the next sweep's.
  void remove_rest() {
    if (ended_) std::ignore = dir_->remove();
  }

 private:
  SandboxResult run_until_ended() {
    if (const Result<void> done = make_state(); !done) return infra_result("infra_state", done.error().message);
    if (const Result<void> done = make_cgroup(); !done) return infra_result("infra_cgroup", done.error().message);
    phases_.prepare_ms = watch_.lap();
    const Result<void> built = make_bundle();
    if (!built) return infra_result("infra_rootfs", built.error().message);
    phases_.rootfs_ms = watch_.lap();
    const Result<SandboxResult> ran = run_command();
    return ran ? *ran : infra_result("infra_runtime", ran.error().message);
  }

  Result<void> make_bundle() { return build_bundle(spec_, paths_, TRY(std::move(init_)), cgroups_->views(spec_.id)); }

  Result<void> make_state() {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    dir_ = TRY(SandboxDir::create(spec_.id, spec_.name, TRY(spec_to_json(spec_, now_rfc3339()))));
    paths_ = {writable_dir(spec_, dir_->path()), runtime_dir() / "scratch"};
    // Before our mount namespace: where the root was changed with chroot(), the kernel names our program otherwise in
    // it.
    init_ = find_program("dsec-init", "dsec");
    crun_ = find_program("crun", "crun (Debian, Ubuntu and Fedora have it as \"crun\")");
    return {};
  }

  Result<void> make_cgroup() {
    cgroups_ = TRY(detect_cgroups());
    const auto directories = cgroups_->directories(spec_.id);
    for (const auto& directory : directories) {
      // One that is there is not ours: we must not write it down, as what is written down is removed.
      if (::access(directory.c_str(), F_OK) == 0) {
        return fail(ErrorCode::exists, "cgroup {} is there already: choose another id, or remove it with rmdir",
                    directory.native());
      }
    }
    for (const auto& directory : directories) TRY(dir_->record("cgroup", directory.native()));
    TRY(cgroups_->create(spec_.id, spec_.limits));
    return enter_mount_namespace(cgroups_->version(), paths_.scratch);
  }

  Result<SandboxResult> run_command() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return fail_sys(errno, "socketpair");
    const Fd init(ends[0]);
    Fd theirs(ends[1]);
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    const Fd requests(::signalfd(-1, &terminate, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!requests.valid()) return fail_sys(errno, "signalfd");

    const RuntimeLaunch launch{TRY(std::move(crun_)),  paths_.scratch / "crun",     paths_.bundle(),
                               paths_.scratch / "pid", paths_.scratch / "crun.log", spec_.id};
    Runtime runtime = TRY(Runtime::launch(launch, TRY(cgroups_->open_join(spec_.id)), theirs));
    theirs.reset();
    const bool tty = spec_.tty == SandboxSpec::Tty::yes;
    const auto kill_all = [this] { std::ignore = kill_cgroups(cgroups_->directories(spec_.id)); };
    const auto started = [this] {
      std::ignore = dir_->record("init", read_small_file(paths_.scratch / "pid").value_or("0"));
    };
    SupervisedEnding ended = TRY(supervise({runtime, init, control_, requests, tty, spec_.timeout, started, kill_all}));
    phases_.start_ms = watch_.lap(ended.started_at);
    phases_.run_ms = watch_.lap();
    ended.ending.oom_kills = cgroups_->oom_kills(spec_.id).value_or(0);
    ended.ending.runtime_log = last_log_line();
    return judge(ended.ending);
  }

  // "2026-01-31T12:00:00.000000Z: the reason" without the time.
  std::string last_log_line() const {
    const std::string log = read_small_file(paths_.scratch / "crun.log").value_or("");
    std::string last;
    for (const std::string_view line : split(log, '\n')) {
      const std::size_t text = line.find("Z: ");
      if (!line.empty()) last = line.substr(text == std::string_view::npos ? 0 : text + 3);
    }
    return escaped(last);
  }

  void clean_up(SandboxResult& result) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }  // what the runtime's death has left to us
    const bool keep = spec_.keep == SandboxSpec::Keep::yes && !result.infra && result.cause != "cancelled";
    if (keep) result.kept_upper = paths_.upper();
    // Not mounted when something failed early; and nobody is left in it.
    if (::umount2(paths_.merged().c_str(), UMOUNT_NOFOLLOW) != 0 && errno == EBUSY) {
      ::umount2(paths_.merged().c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
    }
    const Result<void> done = keep ? keep_upper(result) : dir_->end();
    ended_ = done && !keep;
    if (done && keep) dir_.reset();  // unlocked: kept, for everybody, from now on
    if (done) return;
    if (!result.message.empty()) result.message += "; ";
    result.message +=
        fmt::format("not everything could be removed ({}); the next sweep tries again", done.error().message);
  }

  Result<void> keep_upper(const SandboxResult& result) {
    TRY(remove_cgroups(cgroups_->directories(spec_.id)));
    TRY(dir_->forget_facts());
    TRY(remove_tree(TRY(open_file(paths_.writable, O_RDONLY | O_DIRECTORY)), "work"));
    return write_small_file(dir_->file("result.json"), result_to_json(result));
  }

  const SandboxSpec& spec_;
  const Fd& control_;
  Stopwatch watch_;
  SandboxResult::Phases phases_;
  std::optional<SandboxDir> dir_;
  SandboxPaths paths_;
  Result<std::filesystem::path> init_;
  Result<std::filesystem::path> crun_;
  std::unique_ptr<CgroupDriver> cgroups_;
  bool ended_ = false;  // nothing is left but files to delete
};

}  // namespace

void run_monitor(const SandboxSpec& spec, const Fd& control, const std::function<void(const SandboxResult&)>& answer) {
  Monitor monitor(spec, control);
  answer(monitor.run());
  monitor.remove_rest();
}

}  // namespace dsec::launcher
