// SPDX-License-Identifier: Apache-2.0
#include "cli/fs_locate.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <vector>

#include "base/mount_table.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/bind_mount.h"
#include "control/client.h"

namespace dsec::cli {

namespace fs = std::filesystem;

namespace {

Result<struct stat> look_at(const fs::path& path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) return fail_sys(errno, path.native());
  return st;
}

// Where lazyfsd has the file system with a file, by its device number.
Result<ServedNode> in_lazyfs(const std::vector<MountEntry>& mounts, const fs::path& path) {
  const struct stat st = TRY(look_at(path));
  const std::string device = fmt::format("{}:{}", major(st.st_dev), minor(st.st_dev));
  const fs::path daemons = runtime_dir() / "lazyfs";
  for (const MountEntry& mount : mounts) {
    const fs::path point = mount.point;
    if (mount.device != device || point.parent_path().parent_path() != daemons) continue;
    return ServedNode{point.parent_path(), point.filename(), st.st_ino, path};
  }
  return fail(ErrorCode::invalid, "the lazyfs that serves {} is none of those in {}", path.native(), daemons.native());
}

// Values of an overlay's options whose name begins so: lowerdir=A:B, or lowerdir+=A and again.
std::vector<std::string> directories_of(const MountEntry& overlay, std::string_view option) {
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

Result<ServedNode> in_overlay(const std::vector<MountEntry>& mounts, const MountEntry& overlay, const fs::path& path) {
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
    if (is_at_or_below(lower, (runtime_dir() / "lazyfs").native())) lowers.emplace_back(lower);
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
  const MountEntry* const mount = mount_of(mounts, path.native());
  if (mount == nullptr) return fail(ErrorCode::not_found, "no mount has {}", path.native());
  if (mount->type == "fuse.lazyfs") return in_lazyfs(mounts, path);
  if (mount->type == "overlay") return in_overlay(mounts, *mount, path);
  TRY(look_at(path));
  return fail(ErrorCode::invalid, "{} is on {}, not on an environment", path.native(), mount->type);
}

}  // namespace dsec::cli
