// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace dsec {

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Fd> open_file(const std::filesystem::path& path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return fail_sys(errno, fmt::format("open {}", path.native()));
  return Fd(fd);
}

Result<Fd> open_at(const Fd& dir, const std::string& name, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::openat(dir.get(), name.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return fail_sys(errno, fmt::format("open {}", name));
  return Fd(fd);
}

Result<struct stat> stat_fd(const Fd& fd) {
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail_sys(errno, "fstat");
  return st;
}

Result<void> pread_exact(const Fd& fd, std::span<std::uint8_t> out, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(fd.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_sys(errno, fmt::format("read {} bytes at {}", out.size(), offset));
    if (n == 0)
      return fail(ErrorCode::corrupt, "the file ends early: {} bytes wanted at {}, {} there", out.size(), offset, done);
    done += static_cast<std::size_t>(n);
  }
  return {};
}

Result<std::size_t> read_some(const Fd& fd, std::span<std::uint8_t> out) {
  ssize_t n = -1;
  do {
    n = ::read(fd.get(), out.data(), out.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return fail_sys(errno, "read");
  return static_cast<std::size_t>(n);
}

Result<void> write_all(const Fd& fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_sys(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> sync_fd(const Fd& fd) {
  if (::fsync(fd.get()) != 0) return fail_sys(errno, "fsync");
  return {};
}

Result<void> sync_dir(const std::filesystem::path& dir) {
  const Fd fd = TRY(open_file(dir, O_RDONLY | O_DIRECTORY));
  TRY_IN(dir.native(), sync_fd(fd));
  return {};
}

Result<Bytes> read_all(const Fd& fd, std::uint64_t limit, std::string_view what) {
  const struct stat st = TRY(stat_fd(fd));
  if (st.st_size > 0 && static_cast<std::uint64_t>(st.st_size) > limit) {
    return fail(ErrorCode::invalid, "{} has {} bytes; at most {} are read", what, st.st_size, limit);
  }
  // One more, so that a file of the stated size ends in one read; files of /proc say 0 and must be read in one go.
  Bytes bytes(std::max<std::size_t>(static_cast<std::size_t>(st.st_size) + 1, 4096));
  std::size_t done = 0;
  while (true) {
    const ssize_t n = ::pread(fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_sys(errno, fmt::format("read {}", what));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
    if (done > limit) return fail(ErrorCode::invalid, "{} has more than {} bytes", what, limit);
    if (done == bytes.size()) bytes.resize(bytes.size() * 2);
  }
  bytes.resize(done);
  return bytes;
}

Result<Bytes> read_file(const std::filesystem::path& path, std::uint64_t limit) {
  const Fd fd = TRY(open_file(path, O_RDONLY));
  return read_all(fd, limit, path.native());
}

Result<Fd> unnamed_file(const std::filesystem::path& dir) {
  Result<Fd> fd = open_file(dir, O_TMPFILE | O_RDWR, 0600);
  if (fd) return fd;
  std::string name = (dir / "dsec.XXXXXX").native();  // a file system without O_TMPFILE
  Fd named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named.valid()) return fail_sys(errno, fmt::format("create a temporary file in {}", dir.native()));
  ::unlink(name.c_str());
  return named;
}

Result<void> make_dirs(const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return fail_sys(error.value(), fmt::format("create directory {}", dir.native()));
  return {};
}

Result<Pipe> make_pipe() {
  int fds[2] = {-1, -1};
  if (::pipe2(fds, O_CLOEXEC) != 0) return fail_sys(errno, "pipe");
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

}  // namespace dsec
