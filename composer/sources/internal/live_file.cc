// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/live_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "composer/sources/internal/byte_stream.h"

namespace dsec::composer {

using format::FileType;
using format::Inode;

namespace {

FileType type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR: return FileType::directory;
    case S_IFLNK: return FileType::symlink;
    case S_IFCHR: return FileType::char_device;
    case S_IFBLK: return FileType::block_device;
    case S_IFIFO: return FileType::fifo;
    case S_IFSOCK: return FileType::socket;
    default: return FileType::regular;
  }
}

Inode inode_of(const struct stat& attributes) {
  Inode inode;
  inode.type = type_of(attributes.st_mode);
  inode.mode = attributes.st_mode & 07777;
  inode.uid = attributes.st_uid;
  inode.gid = attributes.st_gid;
  inode.mtime = {attributes.st_mtim.tv_sec, static_cast<std::uint32_t>(attributes.st_mtim.tv_nsec)};
  if (inode.type == FileType::regular) inode.size = static_cast<std::uint64_t>(attributes.st_size);
  if (inode.type == FileType::char_device || inode.type == FileType::block_device) {
    inode.major = gnu_dev_major(attributes.st_rdev);
    inode.minor = gnu_dev_minor(attributes.st_rdev);
  }
  return inode;
}

// Calls an xattr function until its answer fits: it may grow between the two calls.
template <typename Call>
Result<std::string> sized_answer(const char* what, Call call) {
  constexpr int kAttempts = 8;
  std::string buffer(256, '\0');
  for (int i = 0; i < kAttempts; ++i) {
    const ssize_t got = call(buffer.data(), buffer.size());
    if (got >= 0) {
      buffer.resize(static_cast<std::size_t>(got));
      return buffer;
    }
    if (errno != ERANGE) return fail_sys(errno, what);
    const ssize_t size = call(nullptr, 0);
    if (size < 0) return fail_sys(errno, what);
    buffer.resize(static_cast<std::size_t>(size) + 1);
  }
  return fail(ErrorCode::io, "{}: they keep changing", what);
}

template <typename List, typename Get>
Result<format::Xattrs> read_xattrs(List list, Get get) {
  format::Xattrs xattrs;
  const Result<std::string> names = sized_answer("listing xattrs", list);
  if (!names && (names.error().sys == ENOTSUP || names.error().sys == ENOSYS)) return xattrs;
  if (!names) return tl::unexpected(names.error());
  for (std::size_t at = 0; at < names->size();) {
    const std::string name = names->c_str() + at;
    at += name.size() + 1;
    Result<std::string> value =
        sized_answer("reading an xattr", [&](char* data, std::size_t size) { return get(name.c_str(), data, size); });
    if (!value) return tl::unexpected(std::move(value).error().within(name));
    xattrs.emplace(name, std::move(*value));
  }
  return xattrs;
}

Result<format::Xattrs> xattrs_of(const Fd& fd) {
  return read_xattrs(
      [&](char* data, std::size_t size) { return ::flistxattr(fd.get(), data, size); },
      [&](const char* name, char* data, std::size_t size) { return ::fgetxattr(fd.get(), name, data, size); });
}

// Of what cannot be opened for reading. The directory is pinned by its descriptor and the last component is not
// followed, so no symlink can lead this astray.
Result<format::Xattrs> xattrs_at(const Fd& directory, const std::string& name) {
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory.get(), name);
  return read_xattrs(
      [&](char* data, std::size_t size) { return ::llistxattr(path.c_str(), data, size); },
      [&](const char* xattr, char* data, std::size_t size) { return ::lgetxattr(path.c_str(), xattr, data, size); });
}

Result<struct stat> stat_at(const Fd& directory, const std::string& name) {
  struct stat attributes {};
  if (::fstatat(directory.get(), name.c_str(), &attributes, AT_SYMLINK_NOFOLLOW) == 0) return attributes;
  if (errno == ENOENT) return fail(ErrorCode::io, "it vanished while the directory was read");
  return fail_sys(errno, "looking at it");
}

Result<std::string> read_symlink(const Fd& directory, const std::string& name) {
  std::string target(format::kMaxSymlinkBytes + 1, '\0');
  const ssize_t got = ::readlinkat(directory.get(), name.c_str(), target.data(), target.size());
  if (got < 0) return fail_sys(errno, "reading the symlink");
  target.resize(static_cast<std::size_t>(got));
  return target;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && (a.st_mode & S_IFMT) == (b.st_mode & S_IFMT);
}

bool unchanged(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

Result<void> read_unopened(const Fd& directory, const std::string& name, LiveEntry& entry) {
  if (entry.inode.type == FileType::symlink) entry.inode.target = TRY(read_symlink(directory, name));
  entry.inode.xattrs = TRY(xattrs_at(directory, name));
  const struct stat after = TRY(stat_at(directory, name));
  if (same_file(entry.attributes, after)) return {};
  return fail(ErrorCode::io, "it was replaced while it was read");
}

// Feeds [begin, end) of the file.
Result<void> copy_range(const Fd& fd, std::uint64_t begin, std::uint64_t end, Bytes& buffer, ContentSink& sink,
                        const std::function<void(std::uint64_t)>& seen) {
  while (begin < end) {
    const std::size_t want = std::min<std::uint64_t>(buffer.size(), end - begin);
    const ssize_t got = ::pread(fd.get(), buffer.data(), want, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_sys(errno, "reading the file");
    if (got == 0) return fail(ErrorCode::io, "the file became shorter while it was read");
    TRY(sink.data(ByteView(buffer).first(static_cast<std::size_t>(got))));
    if (seen) seen(static_cast<std::uint64_t>(got));
    begin += static_cast<std::uint64_t>(got);
  }
  return {};
}

// The next data at or after `at`: [begin, end). At the end of the file both are `size`.
struct DataRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
DataRange next_data(const Fd& fd, std::uint64_t at, std::uint64_t size) {
  const off_t begin = ::lseek(fd.get(), static_cast<off_t>(at), SEEK_DATA);
  if (begin < 0) return errno == ENXIO ? DataRange{size, size} : DataRange{at, size};  // EINVAL: no holes known here
  const off_t end = ::lseek(fd.get(), begin, SEEK_HOLE);
  const auto from = std::min(static_cast<std::uint64_t>(begin), size);
  const auto to = end < 0 ? size : std::min(static_cast<std::uint64_t>(end), size);
  return {from, std::max(from, to)};
}

}  // namespace

Result<std::vector<std::string>> list_directory(const Fd& fd) {
  Fd own = TRY(open_at(fd, ".", O_RDONLY | O_DIRECTORY));
  struct Close {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  const std::unique_ptr<DIR, Close> dir(::fdopendir(own.get()));
  if (!dir) return fail_sys(errno, "reading the directory");
  own.release();
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const struct dirent* entry = ::readdir(dir.get());
    if (entry == nullptr && errno != 0) return fail_sys(errno, "reading the directory");
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<LiveEntry> read_live_entry(const Fd& directory, const std::string& name) {
  LiveEntry entry;
  entry.attributes = TRY(stat_at(directory, name));
  entry.inode = inode_of(entry.attributes);
  if (entry.inode.type != FileType::regular && entry.inode.type != FileType::directory) {
    TRY(read_unopened(directory, name, entry));
    return entry;
  }
  // O_NONBLOCK: should it have become a FIFO since, opening must not wait for a writer.
  entry.fd = TRY(open_at(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  const struct stat opened = TRY(stat_fd(entry.fd));
  if (!same_file(entry.attributes, opened)) return fail(ErrorCode::io, "it was replaced while it was read");
  entry.attributes = opened;
  entry.inode = inode_of(opened);
  entry.inode.xattrs = TRY(xattrs_of(entry.fd));
  return entry;
}

Result<format::Inode> read_live_directory(const Fd& fd) {
  Inode inode = inode_of(TRY(stat_fd(fd)));
  inode.xattrs = TRY(xattrs_of(fd));
  return inode;
}

Result<void> copy_live_content(const Fd& fd, const struct stat& attributes, ContentSink& sink,
                               const std::function<void(std::uint64_t)>& seen) {
  const auto size = static_cast<std::uint64_t>(attributes.st_size);
  const bool may_have_holes = static_cast<std::uint64_t>(attributes.st_blocks) * 512 < size;
  thread_local Bytes buffer(kStreamBufferBytes);
  for (std::uint64_t at = 0; at < size;) {
    const DataRange range = may_have_holes ? next_data(fd, at, size) : DataRange{at, size};
    if (range.begin > at) TRY(sink.hole(range.begin - at));
    TRY(copy_range(fd, range.begin, range.end, buffer, sink, seen));
    at = range.end;
  }
  const struct stat after = TRY(stat_fd(fd));
  if (unchanged(attributes, after)) return {};
  return fail(ErrorCode::io, "the file changed while it was read ({} bytes before, {} after)", size, after.st_size);
}

}  // namespace dsec::composer
