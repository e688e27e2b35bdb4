// SPDX-License-Identifier: Apache-2.0
#include "cli/fs_locate.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <vector>

#include "base/fd.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/bind_mount.h"
#include "control/client.h"

namespace dsec::cli {

namespace fs = std::filesystem;

namespace {

struct Mount {
  std::string device;  // "MAJOR:MINOR"
  std::string point;
  std::string type;
  std::string options;  // of the file system
};

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size();
    if (!is_escape) {
      plain.push_back(text[i]);
      continue;
    }
    plain.push_back(static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0')));
    i += 3;
  }
  return plain;
}

Result<std::vector<Mount>> read_mounts() {
  constexpr std::uint64_t kMaxBytes = 64 << 20;
  const auto bytes = TRY(read_file("/proc/self/mountinfo", kMaxBytes));
  std::vector<Mount> mounts;
  for (const std::string_view line : split(as_text(bytes), '\n')) {
    const auto words = split(line, ' ');
    std::size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 3 >= words.size()) continue;
    mounts.push_back({std::string(words[2]), decoded(words[4]), decoded(words[dash + 1]), decoded(words[dash + 3])});
  }
  return mounts;
}

bool is_below(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" || starts_with(path, directory + "/");
}

// The one that shows a path: the longest, and of several at a place the last.
const Mount* mount_of(const std::vector<Mount>& mounts, const std::string& path) {
  const Mount* found = nullptr;
  for (const Mount& mount : mounts) {
    const bool fits = is_below(path, mount.point) && (found == nullptr || mount.point.size() >= found->point.size());
    if (fits) found = &mount;
  }
  return found;
}

Result<struct stat> look_at(const fs::path& path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) return fail_sys(errno, path.native());
  return st;
}

// Where lazyfsd has the file system with a file, by its device number.
Result<ServedNode> in_lazyfs(const std::vector<Mount>& mounts, const fs::path& path) {
  const struct stat st = TRY(look_at(path));
  const std::string device = fmt::format("{}:{}", major(st.st_dev), minor(st.st_dev));
  const fs::path daemons = runtime_dir() / "lazyfs";
  for (const Mount& mount : mounts) {
    const fs::path point = mount.point;
    if (mount.device != device || point.parent_path().parent_path() != daemons) continue;
    return ServedNode{point.parent_path(), point.filename(), st.st_ino, path};
  }
  return fail(ErrorCode::invalid, "the lazyfs that serves {} is none of those in {}", path.native(), daemons.native());
}

// Values of an overlay's options whose name begins so: lowerdir=A:B, or lowerdir+=A and again.
std::vector<std::string> directories_of(const Mount& overlay, std::string_view option) {
  std::vector<std::string> found;
  for (const std::string_view one : split(overlay.options, ',')) {
    if (!starts_with(one, option)) continue;
    const std::string_view value = one.substr(std::min(one.size(), one.find('=') + 1));
    for (const std::string_view directory : split(value, ':')) found.emplace_back(directory);
  }
  return found;
}

// The directory of the environment that `dsec mount` put there.
Result<fs::path> attachment_of(const MountRecord& record) {
  auto client = TRY(control::Client::connect(record.store, control::Client::Start::never));
  const Json status = TRY(client.status());
  for (const Json& attached : TRY(json_array(status, "attached"))) {
    if (attached.value("env", "") == record.env) return fs::path(TRY(json_text(attached, "path")));
  }
  return fail(ErrorCode::not_found, "environment {} is not attached", record.env);
}

Result<ServedNode> in_overlay(const std::vector<Mount>& mounts, const Mount& overlay, const fs::path& path) {
  TRY(look_at(path));
  const fs::path inside = path.lexically_relative(overlay.point);
  for (const std::string& upper : directories_of(overlay, "upperdir")) {
    if (look_at(fs::path(upper) / inside)) {
      return fail(ErrorCode::unsupported, "{} was written: it is in {}, not in the environment", path.native(), upper);
    }
  }
  std::vector<fs::path> lowers;
  if (const auto record = load_record(overlay.point)) lowers.push_back(TRY(attachment_of(*record)));
  for (const std::string& lower : directories_of(overlay, "lowerdir")) {
    if (is_below(lower, (runtime_dir() / "lazyfs").native())) lowers.emplace_back(lower);
  }
  for (const fs::path& lower : lowers) {
    if (look_at(lower / inside)) return in_lazyfs(mounts, lower / inside);
  }
  return fail(ErrorCode::invalid, "{} is on an overlayfs without an environment of ours", path.native());
}

}  // namespace

Result<ServedNode> locate_served(const fs::path& given) {
  std::error_code error;
  const fs::path whole = fs::absolute(given).lexically_normal();
  const fs::path name = whole.has_filename() ? whole.filename() : fs::path();
  const fs::path directory = fs::canonical(name.empty() ? whole : whole.parent_path(), error);
  if (error) return fail_sys(error.value(), given.native());
  const fs::path path = name.empty() ? directory : directory / name;
  const auto mounts = TRY(read_mounts());
  const Mount* const mount = mount_of(mounts, path.native());
  if (mount == nullptr) return fail(ErrorCode::not_found, "no mount has {}", path.native());
  if (mount->type == "fuse.lazyfs") return in_lazyfs(mounts, path);
  if (mount->type == "overlay") return in_overlay(mounts, *mount, path);
  TRY(look_at(path));
  return fail(ErrorCode::invalid, "{} is on {}, not on an environment", path.native(), mount->type);
}

}  // namespace dsec::cli
