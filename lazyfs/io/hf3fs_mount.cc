// SPDX-License-Identifier: Apache-2.0
#include "io/hf3fs_mount.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <array>
#include <climits>

#include "base/fd.h"
#include "base/text.h"

namespace dsec::io {

namespace {

constexpr std::uint64_t kMaxMountinfo = 64u << 20;  // about 400,000 mounts; the kernel's default limit is 100,000
constexpr std::string_view kType = "fuse.hf3fs";

// Places in a line of mountinfo (proc(5)); any number of optional fields and a "-" stand before the type.
constexpr std::size_t kDevice = 2;
constexpr std::size_t kMountPoint = 4;
constexpr std::size_t kFirstOptional = 6;

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// Undoes \040 for a space and the like.
std::string without_octal(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::optional<std::string> hf3fs_mount_in(std::string_view mountinfo, dev_t device) {
  const std::string wanted = fmt::format("{}:{}", major(device), minor(device));
  std::optional<std::string> found;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const std::vector<std::string_view> fields = split(line, ' ');
    std::size_t dash = kFirstOptional;
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 1 >= fields.size() || fields[kDevice] != wanted || fields[dash + 1] != kType) continue;
    found = without_octal(fields[kMountPoint]);
  }
  return found;
}

Result<bool> is_on_hf3fs(const std::filesystem::path& path) {
  const Fd place = TRY(open_file(path, O_PATH));
  const struct stat info = TRY(stat_fd(place));
  const Bytes mounts = TRY(read_file("/proc/self/mountinfo", kMaxMountinfo));
  return hf3fs_mount_in(as_text(mounts), info.st_dev).has_value();
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
