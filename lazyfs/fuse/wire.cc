// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/wire.h"

#include <linux/fuse.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "fuse/internal/caller_follower.h"
#include "fuse/internal/rings.h"

namespace dsec::fuse {

namespace {

constexpr std::uint64_t kResentBit = std::uint64_t{1} << 63;           // FUSE_UNIQUE_RESEND
constexpr std::uint32_t kOverIoUringInFlags2 = std::uint32_t{1} << 9;  // FUSE_OVER_IO_URING, bit 41 of the flags
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMinPayloadBytes = 8192;  // FUSE_MIN_READ_BUFFER
constexpr std::size_t kRequestPages = 3;        // all requests of a read-only file system fit, wherever they begin

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

// Asks for rings in libfuse's answer, which knows nothing of them.
ssize_t Wire::write_init_answer(int fd, const iovec* vectors, int count) const {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    const auto* const first = static_cast<const std::uint8_t*>(vectors[i].iov_base);
    bytes.insert(bytes.end(), first, first + vectors[i].iov_len);
  }
  fuse_init_out answer{};
  if (bytes.size() < sizeof(fuse_out_header) + sizeof answer) return ::writev(fd, vectors, count);  // a refusal
  std::memcpy(&answer, bytes.data() + sizeof(fuse_out_header), sizeof answer);
  answer.flags |= FUSE_INIT_EXT;
  answer.flags2 |= kOverIoUringInFlags2;
  const std::size_t pages = (answer.flags & FUSE_MAX_PAGES) != 0 ? answer.max_pages : 32;  // as the kernel has it
  payload_bytes_ = std::max({kMinPayloadBytes, std::size_t{answer.max_write}, pages * kPageBytes});
  std::memcpy(bytes.data() + sizeof(fuse_out_header), &answer, sizeof answer);
  return ::write(fd, bytes.data(), bytes.size());
}

ssize_t Wire::write(int fd, const iovec* vectors, int count) const {
  fuse_out_header header{};
  if (count < 1 || vectors[0].iov_len < sizeof header) return ::writev(fd, vectors, count);
  std::memcpy(&header, vectors[0].iov_base, sizeof header);
  const bool answers_init = init_unique_ != 0 && header.unique == init_unique_;
  if (rings_ != nullptr) {
    if (answers_init) return write_init_answer(fd, vectors, count);
    if (rings_->answer(vectors, count)) return static_cast<ssize_t>(total_bytes(vectors, count));
  }
  for (int i = 0; i < count; ++i) touch_to_read(vectors[i]);
  StandBack* const stand_back = CallerFollower::stand_back();
  const auto send = [&] { return ::writev(fd, vectors, count); };
  const ssize_t n = stand_back != nullptr ? stand_back->while_waking(send) : send();
  // A predecessor has answered it: the connection is as that one said.
  return n < 0 && errno == ENOENT && answers_init ? static_cast<ssize_t>(total_bytes(vectors, count)) : n;
}

}  // namespace dsec::fuse
