// SPDX-License-Identifier: Apache-2.0
#include "daemon/merged_dir.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "rootfs/object_root.h"
#include "store/sealed_file.h"

namespace dsec::daemon {

namespace fs = std::filesystem;

namespace {

// The number says how the layers were merged: another one when the same layers give another image.
constexpr std::string_view kSuffix = ".1.erofs";

struct Image {
  fs::path path;
  std::uint64_t bytes = 0;
  struct timespec used {};
};

bool is_image(std::string_view name) {
  return name.size() == Digest::kHexSize + kSuffix.size() && name.substr(Digest::kHexSize) == kSuffix &&
         Digest::parse(name.substr(0, Digest::kHexSize)).has_value();
}

bool is_of_another_version(std::string_view name) {
  return name.size() > Digest::kHexSize && !is_image(name) &&
         Digest::parse(name.substr(0, Digest::kHexSize)).has_value();
}

// Those that are there, the most recently used first; those of other versions are removed.
std::vector<Image> images_in(const fs::path& dir) {
  std::vector<Image> images;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().native();
    std::error_code ignored;
    if (is_of_another_version(name)) fs::remove(entry.path(), ignored);
    struct stat st {};
    if (!is_image(name) || ::lstat(entry.path().c_str(), &st) != 0) continue;
    images.push_back({entry.path(), static_cast<std::uint64_t>(st.st_size), st.st_mtim});
  }
  std::sort(images.begin(), images.end(), [](const Image& a, const Image& b) {
    return std::tuple(a.used.tv_sec, a.used.tv_nsec, a.path) > std::tuple(b.used.tv_sec, b.used.tv_nsec, b.path);
  });
  return images;
}

void remove_all_in(const fs::path& dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    std::error_code ignored;
    fs::remove(entry.path(), ignored);
  }
}

}  // namespace

fs::path MergedDir::path_of(const Digest& env) const { return dir_ / fmt::format("{}{}", env.hex(), kSuffix); }

Result<void> MergedDir::prepare() {
  const std::lock_guard lock(mutex_);
  std::error_code error;
  fs::create_directories(tmp_dir(), error);
  if (error) return fail_sys(error.value(), fmt::format("create directory {}", tmp_dir().native()));
  if (!lock_) {
    auto taken = LockFile::try_take_over(dir_ / "lock");
    if (!taken && taken.error().code != ErrorCode::exists) return tl::unexpected(taken.error());
    if (taken) {
      remove_all_in(tmp_dir());
      lock_.emplace(std::move(*taken));
    }
  }
  trim();
  return {};
}

// With mutex_ held. What cannot be removed counts.
void MergedDir::trim() {
  usage_ = {};
  bool is_full = false;
  for (const Image& image : images_in(dir_)) {
    is_full = is_full || usage_.bytes + image.bytes > quota_bytes_;
    std::error_code error;
    if (is_full) fs::remove(image.path, error);
    if (is_full && !error) continue;
    ++usage_.images;
    usage_.bytes += image.bytes;
  }
}

Result<Fd> MergedDir::mount(const Digest& env) {
  const fs::path path = path_of(env);
  if (const auto file = store::SealedFile::open(path); !file) {
    const Error& error = file.error();
    if (error.code == ErrorCode::not_found || error.sys == ENOTDIR) return fail(ErrorCode::not_found, "no image");
    log(LogLevel::warn, "merged_image_damaged", {{"path", path.native()}, {"reason", error.message}});
    std::error_code ignored;
    fs::remove(path, ignored);
    const std::lock_guard lock(mutex_);
    trim();
    return fail(ErrorCode::corrupt, "{}", error.message);
  }
  mark_used(env);
  return rootfs::mount_layer(path);
}

void MergedDir::mark_used(const Digest& env) { ::utimensat(AT_FDCWD, path_of(env).c_str(), nullptr, 0); }

Result<void> MergedDir::put(const Digest& env, ByteView image, const std::function<bool()>& stop) {
  if (image.size() > quota_bytes_) {
    return fail(ErrorCode::unsupported, "its merged image takes {} bytes, merged_quota is {}", image.size(),
                quota_bytes_);
  }
  TRY(prepare());
  TRY(store::SealedFile::write(tmp_dir(), path_of(env), image, stop));
  const std::lock_guard lock(mutex_);
  trim();
  return {};
}

MergedDir::Usage MergedDir::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

}  // namespace dsec::daemon
