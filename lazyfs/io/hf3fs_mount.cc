// SPDX-License-Identifier: Apache-2.0
#include "io/hf3fs_mount.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <array>
#include <climits>

#include "base/fd.h"

namespace dsec::io {

namespace {

constexpr std::string_view kType = "fuse.hf3fs";

}  // namespace

std::optional<std::string> hf3fs_mount_among(const std::vector<MountEntry>& mounts, dev_t device) {
  const std::string wanted = fmt::format("{}:{}", major(device), minor(device));
  std::optional<std::string> found;
  for (const MountEntry& mount : mounts) {
    if (mount.device == wanted && mount.type == kType) found = mount.point;
  }
  return found;
}

Result<bool> is_on_hf3fs(const std::filesystem::path& path) {
  const Fd place = TRY(open_file(path, O_PATH));
  const struct stat info = TRY(stat_fd(place));
  return hf3fs_mount_among(TRY(read_mounts()), info.st_dev).has_value();
}

Result<std::string> hf3fs_mount_point(const Hf3fsApi& api, const std::filesystem::path& path) {
  const Fd place = TRY(open_file(path, O_RDONLY));
  if (!api.is_hf3fs(place.get())) {
    return fail(ErrorCode::unsupported, "{} is not on 3FS, says its library", path.native());
  }
  std::array<char, sizeof(Hf3fsIov::mount_point)> text{};
  const int length = api.extract_mount_point(text.data(), static_cast<int>(text.size()), path.c_str());
  if (length <= 0 || text[0] == '\0') {
    return fail(ErrorCode::unsupported, "the 3FS library knows no mount point of {}", path.native());
  }
  if (static_cast<std::size_t>(length) > text.size()) {
    return fail(ErrorCode::unsupported, "the 3FS mount point of {} is longer than {} bytes", path.native(),
                text.size() - 1);
  }
  text.back() = '\0';
  return std::string(text.data());
}

}  // namespace dsec::io
