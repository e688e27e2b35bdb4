// SPDX-License-Identifier: Apache-2.0
// Running commands in sandboxes: the whole public interface of launcher/.
//
// A sandbox is an overlayfs root on an environment's tree, namespaces, a cgroup, Docker's default capabilities and
// system calls, and one command. Its truth is on disk: <state_dir>/sandboxes/<id>/, with a lock that its monitor
// process (dsec-monitor, one per running sandbox) holds while it lives. Whatever is killed, whenever, the command dies
// with it, and sweep_orphans() removes what stays. Root only: every function here is `permission` for others.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dsec {

// A host directory or file inside the sandbox, as `docker -v` does it (recursive; read_only covers the mounts below).
struct Volume {
  enum class Access { read_write, read_only };
  std::filesystem::path source;  // must exist
  std::string target;            // absolute; made when missing
  Access access = Access::read_write;
};

// What is not set is not limited, except processes.
struct Limits {
  std::optional<double> cpus;                 // 1.5: one and a half CPUs of time; at least 0.01
  std::optional<std::uint64_t> memory_bytes;  // no swap on top; at least kMinMemoryBytes
  std::optional<std::uint64_t> pids;          // processes and threads of the command; kDefaultPids when not set
};
inline constexpr std::uint64_t kMinMemoryBytes = 6u << 20;  // as Docker
inline constexpr std::uint64_t kDefaultPids = 4096;
inline constexpr std::uint64_t kDefaultShmBytes = 64u << 20;  // as Docker

enum class Network {
  none,  // a network namespace with only lo
  host,  // the host's network, hosts file and resolver
};

// The descriptors that become 0, 1 and 2 of the command, without a copy in between.
struct Stdio {
  int in = 0;
  int out = 1;
  int err = 2;
};

struct SandboxSpec {
  enum class Keep { no, yes };            // yes: the writable layer stays until remove_sandbox()
  enum class Tty { no, yes };             // yes: a terminal of its own; stdio.in must be a terminal
  enum class Signals { forward, leave };  // forward: signals that reach this process go to the command

  std::string id;       // empty: generated; [A-Za-z0-9][A-Za-z0-9_.-]{0,63}, unique under one state directory
  std::string name;     // empty: none; the same letters, unique among sandboxes that run or are kept
  std::string env_ref;  // labels, for lists only
  std::string env_digest;

  std::vector<std::filesystem::path> lowers;  // read-only trees, bottom first; usually one, an env's lazyfs directory
  int lower_mount = -1;                       // a mount to use instead of them, in any namespace or none; not ours
  std::vector<std::string> argv;              // argv[0] is looked up in the sandbox's $PATH when it has no slash
  std::vector<std::pair<std::string, std::string>> env;
  std::string workdir;   // empty: "/"; made when missing
  std::string user;      // "name", "uid", "name:group" or "uid:gid" of the image; empty: root
  std::string hostname;  // empty: the id
  std::vector<Volume> volumes;
  Limits limits;
  std::optional<std::chrono::milliseconds> timeout;  // then SIGTERM, and SIGKILL after kKillGrace
  Network network = Network::none;
  std::uint64_t shm_bytes = kDefaultShmBytes;  // size of /dev/shm
  Keep keep = Keep::no;
  Tty tty = Tty::no;
  Signals signals = Signals::forward;
  Stdio stdio;
  // The writable layer is <writable_root>/<id>/upper. Empty: the state directory. A file system that can be an
  // overlay's upper layer (ext4, xfs, tmpfs; not an overlay, not 3FS).
  std::filesystem::path writable_root;
};
inline constexpr std::chrono::milliseconds kKillGrace{2000};

// How a sandbox ended. `cause` is one of
//   exit            the command ended by itself: exit_code is its own
//   signal          it was killed by `signal`: 128 + signal
//   timeout         the deadline passed: 124
//   oom             the kernel killed it at the memory limit: 137
//   not_executable  126          not_found       127
//   cancelled       the second SIGINT: 130; `remove_sandbox` or a dead client: 137
//   infra_state, infra_cgroup, infra_rootfs, infra_runtime, infra_monitor      we failed: 125
struct SandboxResult {
  struct Phases {
    double prepare_ms = 0;  // state directory, namespace, cgroup
    double rootfs_ms = 0;   // overlay, users, mount points, runtime configuration
    double start_ms = 0;    // the runtime, until the command was executed
    double run_ms = 0;
    double cleanup_ms = 0;
  };
  std::string id;
  int exit_code = 125;
  int signal = 0;  // that killed the command, 0 if none
  bool timed_out = false;
  bool oom_killed = false;  // something in the sandbox was killed at the memory limit, if not the command itself
  std::string cause;
  bool infra = false;
  std::string message;  // for people, when cause is not exit or signal
  Phases phases;
  std::filesystem::path kept_upper;  // with Keep::yes
};

// Runs one command to its end and removes the sandbox. Blocks. An Error is a specification that cannot be run as it is
// (`invalid`, `not_found` for a volume or lower, `permission` without root, `exists` never: a name in use is a result
// with infra_state); everything later is a SandboxResult. Sweeps first when that was last done over kSweepInterval ago.
//
// SIGINT, TERM, HUP, QUIT, USR1, USR2 and WINCH that reach the process meanwhile go to the command (Signals::forward;
// those set to SIG_IGN stay ignored); the second SIGINT kills the sandbox. When the process dies, so does the sandbox.
// Thread-safe: many may run at once, and all of them get the signals.
//
// On return nothing of the sandbox runs, is mounted or has a cgroup, and its id and name are free. Its files are
// deleted after that, by its monitor, which goes on when this process ends (and whose work a sweep finishes if it is
// killed).
Result<SandboxResult> run_sandbox(const SandboxSpec& spec);
inline constexpr std::chrono::seconds kSweepInterval{10};

// Waits until the files of all sandboxes that this process has run are deleted.
void wait_for_removals();

// "sb-" and 12 random hexadecimal digits.
std::string new_sandbox_id();

struct SandboxInfo {
  std::string id;
  std::string name;
  std::string state;  // starting, running, kept (ended, writable layer still there) or dead (to be swept)
  std::string env_ref;
  std::string env_digest;
  std::vector<std::string> argv;
  std::string created_at;  // RFC 3339, UTC
  pid_t monitor_pid = 0;   // 0 when it is not alive
  pid_t init_pid = 0;      // process 1 of the sandbox as the host sees it; 0 when not running
  std::filesystem::path upper;
};

// All sandboxes of this state directory, by id. What appears or ends meanwhile may or may not be listed.
Result<std::vector<SandboxInfo>> list_sandboxes();

enum class Force { no, yes };
// Removes a kept or dead sandbox; with Force::yes also kills a running one (its run_sandbox() returns `cancelled`).
// `not_found`; `exists` when it runs and force is no.
Result<void> remove_sandbox(const std::string& id_or_name, Force force);

struct SweepReport {
  std::vector<std::string> removed;   // ids
  std::vector<std::string> failures;  // "id: what is left and why"
};
// Removes what dead monitors left: processes, cgroups, mounts, directories. Never touches a living or kept sandbox, nor
// anything that is not under this state directory or named in it. Thread-safe, and safe beside other processes.
Result<SweepReport> sweep_orphans();

}  // namespace dsec
