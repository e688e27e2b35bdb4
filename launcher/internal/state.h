// SPDX-License-Identifier: Apache-2.0
// Sandboxes on disk:
//   <state_dir>/sandboxes/     mode 0700: writable layers hold setuid programs that no host user may reach
//     .lock                    held for the moment in which a sandbox appears, and while dead ones are looked for
//     .names/<name> -> <id>    names in use
//     .swept                   its time is that of the last sweep
//     .trash/<id>.<random>/    what is only left to be deleted
//     <id>/lock                locked by the monitor for its whole life: this alone means "alive". Holds facts, one a
//     line:
//                              "monitor PID", "cgroup DIRECTORY" (written before it is made), "init PID"
//     <id>/spec.json           what it was asked to be
//     <id>/result.json         only when the sandbox is kept: how it ended
//     <id>/{upper,work}        unless there is a writable_root
// A directory without a lock that is held and without result.json is an orphan.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/sandbox.h"

namespace dsec::launcher {

std::filesystem::path sandboxes_dir();
// Makes it when missing.
Result<void> make_sandboxes_dir();

// The lock of all sandboxes. Held while the object lives; others wait.
class StateLock {
 public:
  static Result<StateLock> acquire();

 private:
  explicit StateLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// One sandbox's directory, with its lock held by this process. It stays on disk when the object goes: the lock is
// released, and what is left is an orphan or kept. Not thread-safe.
class SandboxDir {
 public:
  // Makes a directory, its lock and its name. `exists` when the id or the name is taken.
  static Result<SandboxDir> create(const std::string& id, const std::string& name, const std::string& spec_json);
  // Takes the lock of one that exists, without waiting. Nothing when somebody holds it: it is alive.
  static Result<std::optional<SandboxDir>> adopt(const std::string& id);
  // The same for an entry of .trash: nothing when somebody is deleting it.
  static Result<std::optional<SandboxDir>> adopt_trash(const std::string& entry);

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path file(const char* name) const { return path_ / name; }
  [[nodiscard]] bool is_kept() const;

  // Adds a fact to the lock file.
  Result<void> record(std::string_view key, std::string_view value);
  // Forgets them all: of what is kept nothing runs, and whoever removes it must not look for its cgroups.
  Result<void> forget_facts();

  // Removes processes, cgroups, mounts, the writable layer when it is elsewhere, and the name, and moves the directory
  // to the trash: after this the sandbox is gone for everybody, and its id and name are free. Can be repeated after a
  // crash.
  Result<void> end();
  // Deletes what end() left, which takes as long as the writable layer is large.
  Result<void> remove();
  Result<void> destroy();  // both

 private:
  SandboxDir(std::string id, std::filesystem::path path, Fd dir, Fd lock)
      : id_(std::move(id)), path_(std::move(path)), dir_(std::move(dir)), lock_(std::move(lock)) {}
  static Result<std::optional<SandboxDir>> take(const std::string& id, const std::filesystem::path& path);

  std::string id_;
  std::filesystem::path path_;
  Fd dir_;
  Fd lock_;  // none when a crash left a directory without one
};

// Small whole files of a sandbox, not synced: after a crash of the machine there is nothing to go on with.
Result<void> write_small_file(const std::filesystem::path& path, std::string_view text, mode_t mode = 0644);
Result<std::string> read_small_file(const std::filesystem::path& path);

// Where the writable layer of a sandbox is: <writable_root>/<id>, or its own directory.
std::filesystem::path writable_dir(const SandboxSpec& spec, const std::filesystem::path& sandbox_dir);

// Ids of all directories, in order; entries of the trash.
Result<std::vector<std::string>> sandbox_ids();
Result<std::vector<std::string>> trash_entries();
// The id that `id_or_name` stands for, or `not_found`.
Result<std::string> resolve_id(const std::string& id_or_name);

// Whose lock it is, asked without taking it.
struct LiveSandbox {
  pid_t monitor = 0;  // 0 in the moment before it has written it
  pid_t init = 0;     // 0 before the command was started
};
// Nothing when the sandbox is dead, kept or absent.
std::optional<LiveSandbox> live_sandbox(const std::string& id);

}  // namespace dsec::launcher
