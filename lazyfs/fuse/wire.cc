// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/wire.h"

#include <linux/fuse.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace dsec::fuse {

namespace {

constexpr std::uint64_t kResentBit = std::uint64_t{1} << 63;  // FUSE_UNIQUE_RESEND
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kRequestPages = 3;  // all requests of a read-only file system fit, wherever they begin

// A page that is not there yet is brought in by the kernel while it copies; if the process is being killed it will not,
// and the request fails that was to be sent again (fs/fuse/dev.c: fuse_copy_fill, err -> EIO). Touched pages are there.
void touch_to_write(void* bytes, std::size_t size) {
  auto* const first = static_cast<volatile std::uint8_t*>(bytes);
  for (std::size_t at = 0; at < std::min(size, kRequestPages * kPageBytes); at += kPageBytes) first[at] = 0;
}

void touch_to_read(const iovec& vector) {
  if (vector.iov_len == 0) return;
  const auto* const first = static_cast<const volatile std::uint8_t*>(vector.iov_base);
  for (std::size_t at = 0; at < vector.iov_len; at += kPageBytes) static_cast<void>(first[at]);
  static_cast<void>(first[vector.iov_len - 1]);
}

std::size_t total_bytes(const iovec* vectors, int count) {
  std::size_t total = 0;
  for (int i = 0; i < count; ++i) total += vectors[i].iov_len;
  return total;
}

}  // namespace

void Wire::give_init(Bytes init) {
  fuse_in_header header{};
  if (init.size() < sizeof header) return;
  std::memcpy(&header, init.data(), sizeof header);
  init_unique_ = header.unique;
  init_ = std::move(init);
}

ssize_t Wire::read(int fd, void* bytes, std::size_t size) {
  if (!init_.empty()) {
    const std::size_t given = std::min(size, init_.size());
    std::memcpy(bytes, init_.data(), given);
    init_.clear();
    return static_cast<ssize_t>(given);
  }
  touch_to_write(bytes, size);
  while (true) {
    const ssize_t n = ::read(fd, bytes, size);
    if (n <= 0 || resent_ == Resent::serve || !refused(fd, bytes, static_cast<std::size_t>(n))) return n;
  }
}

bool Wire::refused(int fd, const void* request, std::size_t size) const {
  fuse_in_header header{};
  if (size < sizeof header) return false;
  std::memcpy(&header, request, sizeof header);
  if ((header.unique & kResentBit) == 0 || header.opcode == FUSE_INTERRUPT) return false;
  const fuse_out_header reply{sizeof reply, -EIO, header.unique};
  [[maybe_unused]] const ssize_t ignored = ::write(fd, &reply, sizeof reply);  // its reader may be gone
  log(LogLevel::error, "request_dropped",
      {{"opcode", std::to_string(header.opcode)},
       {"node", std::to_string(header.nodeid)},
       {"reason", "it was in flight each time that lazyfsd crashed; the reader gets EIO"}});
  return true;
}

ssize_t Wire::write(int fd, const iovec* vectors, int count) const {
  for (int i = 0; i < count; ++i) touch_to_read(vectors[i]);
  const ssize_t n = ::writev(fd, vectors, count);
  if (n >= 0 || errno != ENOENT || init_unique_ == 0) return n;
  fuse_out_header header{};
  if (vectors[0].iov_len < sizeof header) return n;
  std::memcpy(&header, vectors[0].iov_base, sizeof header);
  // A predecessor has answered it: the connection is as that one said.
  return header.unique == init_unique_ ? static_cast<ssize_t>(total_bytes(vectors, count)) : n;
}

}  // namespace dsec::fuse
