// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/state.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/paths.h"
#include "base/text.h"
#include "launcher/internal/cgroup.h"
#include "launcher/internal/detach_mounts.h"
#include "launcher/internal/names.h"
#include "launcher/internal/remove_tree.h"
#include "launcher/internal/spec_json.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxSmallFile = 64u << 20;
constexpr std::uint64_t kMaxLockFile = 1u << 20;

// Locks of open file descriptions: like flock(2) they end with the last descriptor, but can be asked for without being
// taken, so that a list of sandboxes never stands in the way of a sweep.
int lock_request(const Fd& fd, int command, struct flock& request) {
  request = {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  int done = -1;
  do {
    done = ::fcntl(fd.get(), command, &request);
  } while (done != 0 && errno == EINTR);
  return done;
}

Result<void> lock_fd(const Fd& fd) {
  struct flock request {};
  if (lock_request(fd, F_OFD_SETLKW, request) != 0) return fail_sys(errno, "lock");
  return {};
}

Result<Fd> open_dir(const fs::path& path) { return open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); }

fs::path name_link(const std::string& name) { return sandboxes_dir() / ".names" / name; }

// Values of `key` in the text of a lock file.
std::vector<std::string_view> facts(std::string_view text, std::string_view key) {
  std::vector<std::string_view> values;
  for (const std::string_view line : split(text, '\n')) {
    if (starts_with(line, key) && line.size() > key.size() && line[key.size()] == ' ') {
      values.push_back(line.substr(key.size() + 1));
    }
  }
  return values;
}

pid_t pid_fact(std::string_view text, std::string_view key) {
  pid_t pid = 0;
  for (const std::string_view value : facts(text, key)) std::from_chars(value.data(), value.data() + value.size(), pid);
  return pid;
}

// Points `name` at `id`; takes over the name of a sandbox that is dead or gone. Called with the StateLock held.
Result<void> claim_name(const std::string& name, const std::string& id) {
  std::error_code error;
  const fs::path link = name_link(name);
  const std::string owner = fs::read_symlink(link, error).native();
  if (!error) {
    if (live_sandbox(owner) || ::access((sandboxes_dir() / owner / "result.json").c_str(), F_OK) == 0) {
      return fail(ErrorCode::exists,
                  "the name {} is used by sandbox {}; remove that with \"dsec rm {}\" or choose another", name, owner,
                  name);
    }
    fs::remove(link, error);
  }
  if (::symlink(id.c_str(), link.c_str()) != 0) return fail_sys(errno, fmt::format("make {}", link.native()));
  return {};
}

void release_name(const std::string& name, const std::string& id) {
  std::error_code error;
  if (!name.empty() && fs::read_symlink(name_link(name), error) == id) fs::remove(name_link(name), error);
}

// Whole or not at all, as lists read it without a lock.
Result<void> write_spec(const fs::path& dir, std::string_view text) {
  TRY(write_small_file(dir / "spec.new", text, 0600));
  if (::rename((dir / "spec.new").c_str(), (dir / "spec.json").c_str()) != 0) return fail_sys(errno, "write spec.json");
  return {};
}

Result<void> end_cgroups(const Fd& lock, const std::string& id) {
  const Bytes text = TRY(read_all(lock, kMaxLockFile, "the sandbox's lock"));
  std::vector<fs::path> groups;
  for (const std::string_view directory : facts(as_text(text), "cgroup")) {
    if (is_cgroup_of(directory, id)) groups.emplace_back(directory);
  }
  return remove_cgroups(groups);
}

Result<std::vector<std::string>> list_names(const fs::path& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().native());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail_sys(error.value(), fmt::format("list {}", dir.native()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

fs::path sandboxes_dir() { return state_dir() / "sandboxes"; }

Result<void> make_sandboxes_dir() {
  const fs::path dir = sandboxes_dir();
  if (::access((dir / ".trash").c_str(), F_OK) == 0) return {};
  TRY(make_dirs(dir.parent_path()));
  for (const fs::path& path : {dir, dir / ".names", dir / ".trash"}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return fail_sys(errno, fmt::format("create {} (choose another place with DSEC_STATE_DIR)", path.native()));
    }
  }
  return {};
}

Result<StateLock> StateLock::acquire() {
  Fd fd = TRY(open_file(sandboxes_dir() / ".lock", O_RDWR | O_CREAT, 0600));
  TRY_IN("lock the sandboxes", lock_fd(fd));
  return StateLock(std::move(fd));
}

Result<SandboxDir> SandboxDir::create(const std::string& id, const std::string& name, const std::string& spec_json) {
  TRY(make_sandboxes_dir());
  const StateLock all = TRY(StateLock::acquire());
  const fs::path path = sandboxes_dir() / id;
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno == EEXIST)
      return fail(ErrorCode::exists, "there is a sandbox {} already; \"dsec rm {}\" removes it", id, id);
    return fail_sys(errno, fmt::format("create {}", path.native()));
  }
  Fd lock = TRY(open_file(path / "lock", O_RDWR | O_CREAT | O_EXCL | O_APPEND, 0600));
  TRY_IN("lock a new sandbox", lock_fd(lock));
  SandboxDir dir(id, path, TRY(open_dir(path)), std::move(lock));
  Result<void> written = dir.record("monitor", std::to_string(::getpid()));
  if (written) written = write_spec(path, spec_json);
  if (written && !name.empty()) written = claim_name(name, id);
  if (written) return dir;
  std::ignore = remove_tree(TRY(open_dir(sandboxes_dir())), id);
  return tl::unexpected(std::move(written).error());
}

Result<std::optional<SandboxDir>> SandboxDir::take(const std::string& id, const fs::path& path) {
  Fd dir = TRY(open_dir(path));
  Result<Fd> lock = open_at(dir, "lock", O_RDWR | O_NOFOLLOW | O_APPEND);
  if (!lock && lock.error().code != ErrorCode::not_found) return tl::unexpected(lock.error());
  if (!lock) return std::optional<SandboxDir>(SandboxDir(id, path, std::move(dir), Fd()));
  struct flock request {};
  if (lock_request(*lock, F_OFD_SETLK, request) != 0) {
    if (errno == EAGAIN || errno == EACCES) return std::optional<SandboxDir>();
    return fail_sys(errno, fmt::format("lock sandbox {}", id));
  }
  return std::optional<SandboxDir>(SandboxDir(id, path, std::move(dir), std::move(*lock)));
}

Result<std::optional<SandboxDir>> SandboxDir::adopt(const std::string& id) {
  TRY(check_name("id", id));
  return take(id, sandboxes_dir() / id);
}

Result<std::optional<SandboxDir>> SandboxDir::adopt_trash(const std::string& entry) {
  return take(entry, sandboxes_dir() / ".trash" / entry);
}

bool SandboxDir::is_kept() const { return ::faccessat(dir_.get(), "result.json", F_OK, 0) == 0; }

Result<void> SandboxDir::record(std::string_view key, std::string_view value) {
  return write_all(lock_, as_bytes(fmt::format("{} {}\n", key, value)));
}

Result<void> SandboxDir::forget_facts() {
  if (::ftruncate(lock_.get(), 0) != 0) return fail_sys(errno, "empty the sandbox's lock");
  return {};
}

Result<void> SandboxDir::end() {
  if (lock_.valid()) TRY(end_cgroups(lock_, id_));
  TRY(detach_mounts_below(path_));
  const Result<std::string> text = read_small_file(file("spec.json"));
  const Result<SandboxSpec> spec = text ? spec_from_json(*text) : tl::unexpected(text.error());
  if (spec && !spec->writable_root.empty()) {
    TRY(detach_mounts_below(spec->writable_root / id_));
    const Result<Fd> root = open_file(spec->writable_root, O_RDONLY | O_DIRECTORY);
    if (root) TRY_IN(spec->writable_root.native(), remove_tree(*root, id_));
  }
  if (spec) release_name(spec->name, id_);
  const fs::path trash = sandboxes_dir() / ".trash" / fmt::format("{}.{}", id_, new_sandbox_id());
  if (::rename(path_.c_str(), trash.c_str()) != 0) return fail_sys(errno, fmt::format("move {} away", path_.native()));
  path_ = trash;
  return {};
}

Result<void> SandboxDir::remove() {
  TRY_IN(path_.native(), remove_contents(dir_, "lock"));
  ::unlinkat(dir_.get(), "lock", 0);
  if (::rmdir(path_.c_str()) != 0 && errno != ENOENT) return fail_sys(errno, fmt::format("remove {}", path_.native()));
  return {};
}

Result<void> SandboxDir::destroy() {
  TRY(end());
  return remove();
}

Result<void> write_small_file(const fs::path& path, std::string_view text, mode_t mode) {
  const Fd fd = TRY(open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode));
  TRY_IN(path.native(), write_all(fd, as_bytes(text)));
  return {};
}

Result<std::string> read_small_file(const fs::path& path) {
  const Bytes bytes = TRY(read_file(path, kMaxSmallFile));
  return std::string(as_text(bytes));
}

fs::path writable_dir(const SandboxSpec& spec, const fs::path& sandbox_dir) {
  return spec.writable_root.empty() ? sandbox_dir : spec.writable_root / spec.id;
}

Result<std::vector<std::string>> sandbox_ids() {
  std::vector<std::string> ids = TRY(list_names(sandboxes_dir()));
  std::erase_if(ids, [](const std::string& name) { return !check_name("id", name); });
  return ids;
}

Result<std::vector<std::string>> trash_entries() { return list_names(sandboxes_dir() / ".trash"); }

Result<std::string> resolve_id(const std::string& id_or_name) {
  TRY(check_name("id or name", id_or_name));
  if (::access((sandboxes_dir() / id_or_name).c_str(), F_OK) == 0) return id_or_name;
  std::error_code error;
  const std::string id = fs::read_symlink(name_link(id_or_name), error).native();
  if (!error && check_name("id", id) && ::access((sandboxes_dir() / id).c_str(), F_OK) == 0) return id;
  return fail(ErrorCode::not_found, "there is no sandbox {}; \"dsec ps\" lists them", id_or_name);
}

std::optional<LiveSandbox> live_sandbox(const std::string& id) {
  const Result<Fd> lock = open_file(sandboxes_dir() / id / "lock", O_RDWR | O_NOFOLLOW);
  struct flock request {};
  if (!lock || lock_request(*lock, F_OFD_GETLK, request) != 0 || request.l_type == F_UNLCK) return std::nullopt;
  const Result<Bytes> text = read_all(*lock, kMaxLockFile, "the sandbox's lock");
  if (!text) return LiveSandbox{};
  return LiveSandbox{pid_fact(as_text(*text), "monitor"), pid_fact(as_text(*text), "init")};
}

}  // namespace dsec::launcher
