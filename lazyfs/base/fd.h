// SPDX-License-Identifier: Apache-2.0
// File descriptors that close themselves, and the system calls on them as Results.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"

namespace dsec {

// Owns one file descriptor; -1 owns none. Move only. Closing errors are ignored: what must be durable is synced first.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// open(2) with O_CLOEXEC; retried on EINTR. The error names the path.
Result<Fd> open_file(const std::filesystem::path& path, int flags, mode_t mode = 0);
// openat(2) with O_CLOEXEC, below `dir`. `name` is used in the error as it is.
Result<Fd> open_at(const Fd& dir, const std::string& name, int flags, mode_t mode = 0);

Result<struct stat> stat_fd(const Fd& fd);

// Reads exactly `out.size()` bytes at `offset`; fewer is `corrupt` ("ends early").
Result<void> pread_exact(const Fd& fd, std::span<std::uint8_t> out, std::uint64_t offset);
// Reads up to `out.size()` bytes from the current position; 0 at the end.
Result<std::size_t> read_some(const Fd& fd, std::span<std::uint8_t> out);
// Writes all bytes at the current position.
Result<void> write_all(const Fd& fd, ByteView bytes);
Result<void> sync_fd(const Fd& fd);
// fsync of a directory, which makes renames and new names in it durable.
Result<void> sync_dir(const std::filesystem::path& dir);

// A whole file of at most `limit` bytes; a larger one is `invalid`.
Result<Bytes> read_file(const std::filesystem::path& path, std::uint64_t limit);
// The same from a descriptor, read from the start.
Result<Bytes> read_all(const Fd& fd, std::uint64_t limit, std::string_view what);

// A file without a name in `dir`, open for reading and writing; it is gone when its descriptor is closed.
Result<Fd> unnamed_file(const std::filesystem::path& dir);

// mkdir -p with mode 0755 (less the umask).
Result<void> make_dirs(const std::filesystem::path& dir);

struct Pipe {
  Fd read_end;
  Fd write_end;
};
Result<Pipe> make_pipe();

}  // namespace dsec
