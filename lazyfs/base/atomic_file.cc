// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <system_error>

#include "base/text.h"

namespace dsec {

namespace {

constexpr std::string_view kPrefix = "w-";  // of files that are being written

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& tmp_dir) {
  std::string name = (tmp_dir / fmt::format("{}XXXXXX", kPrefix)).native();
  Fd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid()) return fail_sys(errno, fmt::format("create a temporary file in {}", tmp_dir.native()));
  AtomicFile file(std::move(fd), std::move(name));
  if (::fchmod(file.fd_.get(), 0644) != 0) return fail_sys(errno, fmt::format("chmod {}", file.tmp_path_.native()));
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::move(other.fd_)), tmp_path_(std::exchange(other.tmp_path_, {})), size_(other.size_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(tmp_path_, other.tmp_path_);
  std::swap(size_, other.size_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (!tmp_path_.empty()) ::unlink(tmp_path_.c_str());
}

Result<void> AtomicFile::write(ByteView bytes) {
  TRY_IN(tmp_path_.native(), write_all(fd_, bytes));
  size_ += bytes.size();
  return {};
}

namespace {

// mkdir -p in which each new name is durable before the next one is made below it.
Result<void> make_durable_dirs(const std::filesystem::path& dir) {
  std::error_code ignored;  // mkdir() says it better
  if (dir.empty() || std::filesystem::is_directory(dir, ignored)) return {};
  const std::filesystem::path parent = dir.has_parent_path() ? dir.parent_path() : ".";
  TRY(make_durable_dirs(parent));
  if (::mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return fail_sys(errno, fmt::format("create directory {}", dir.native()));
  }
  return sync_dir(parent);
}

}  // namespace

Result<void> AtomicFile::commit(const std::filesystem::path& path) {
  const std::filesystem::path dir = path.has_parent_path() ? path.parent_path() : ".";
  TRY(make_durable_dirs(dir));
  TRY_IN(tmp_path_.native(), sync_fd(fd_));
  TRY(replace(path));
  return sync_dir(dir);
}

Result<void> AtomicFile::replace(const std::filesystem::path& path) {
  if (::rename(tmp_path_.c_str(), path.c_str()) != 0) {
    return fail_sys(errno, fmt::format("rename {} to {}", tmp_path_.native(), path.native()));
  }
  tmp_path_.clear();
  return {};
}

Result<void> write_file_atomic(const std::filesystem::path& tmp_dir, const std::filesystem::path& path,
                               ByteView bytes) {
  AtomicFile file = TRY(AtomicFile::create(tmp_dir));
  TRY(file.write(bytes));
  return file.commit(path);
}

namespace {

using Visit = std::function<void(const std::filesystem::path&, const struct stat&)>;

void for_each_unfinished(const std::filesystem::path& tmp_dir, const Visit& visit) {
  constexpr std::size_t kNameBytes = kPrefix.size() + 6;
  std::error_code error;
  for (std::filesystem::directory_iterator it(tmp_dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().native();
    if (name.size() != kNameBytes || !starts_with(name, kPrefix)) continue;
    struct stat st {};
    if (::lstat(it->path().c_str(), &st) == 0 && S_ISREG(st.st_mode)) visit(it->path(), st);
  }
}

void count(UnfinishedFiles& unfinished, const struct stat& st) {
  ++unfinished.files;
  unfinished.bytes += static_cast<std::uint64_t>(st.st_size);
}

}  // namespace

void remove_unfinished_files(const std::filesystem::path& tmp_dir) {
  for_each_unfinished(tmp_dir, [](const auto& path, const struct stat&) { ::unlink(path.c_str()); });
}

UnfinishedFiles count_unfinished_files(const std::filesystem::path& tmp_dir) {
  UnfinishedFiles found;
  for_each_unfinished(tmp_dir, [&](const auto&, const struct stat& st) { count(found, st); });
  return found;
}

Result<UnfinishedFiles> remove_unfinished_files(const std::filesystem::path& tmp_dir, std::chrono::seconds age) {
  const AtomicFile clock = TRY(AtomicFile::create(tmp_dir));
  const struct stat now = TRY(stat_fd(clock.fd()));
  UnfinishedFiles removed;
  for_each_unfinished(tmp_dir, [&](const std::filesystem::path& path, const struct stat& st) {
    if (now.st_mtim.tv_sec - st.st_mtim.tv_sec >= age.count() && ::unlink(path.c_str()) == 0) count(removed, st);
  });
  return removed;
}

}  // namespace dsec
