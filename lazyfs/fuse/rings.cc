// SPDX-License-Identifier: Apache-2.0
#include "fuse/rings.h"

#include <linux/fuse.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/log.h"
#include "base/text.h"
#include "fuse/device.h"
#include "fuse/internal/rings.h"

namespace dsec::fuse {

namespace {

// What Debian 12's <linux/fuse.h> does not have yet: the ABI of FUSE 7.42.
constexpr std::uint32_t kRegister = 1;
constexpr std::uint32_t kCommitAndFetch = 2;
constexpr std::size_t kHeaderBytes = 128;

struct PlaceState {
  std::uint64_t flags;
  std::uint64_t commit_id;
  std::uint32_t payload_size;
  std::uint32_t padding;
  std::uint64_t reserved;
};
struct PlaceHeaders {
  std::array<std::uint8_t, kHeaderBytes> in_out;     // fuse_in_header, then fuse_out_header
  std::array<std::uint8_t, kHeaderBytes> operation;  // the first argument, such as fuse_read_in
  PlaceState state;
};
struct Command {
  std::uint64_t flags;
  std::uint64_t commit_id;
  std::uint16_t queue;
  std::array<std::uint8_t, 6> padding;
};
static_assert(sizeof(PlaceHeaders) == 288 && sizeof(Command) == 24);

constexpr std::size_t kPageBytes = 4096;
constexpr unsigned kRingEntries = 2;
constexpr unsigned kRingFlags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;

thread_local RingPlace* serving = nullptr;
thread_local bool answered = false;
thread_local std::uint64_t losses_before = 0;

Result<void> set_up(struct io_uring& ring) {
  const int error = -::io_uring_queue_init(kRingEntries, &ring, kRingFlags);
  if (error == 0) return {};
  ring.ring_fd = -1;
  if (error == EPERM || error == EACCES) {
    return fail(ErrorCode::unsupported, "io_uring is not allowed here (kernel.io_uring_disabled or seccomp)");
  }
  if (error == ENOSYS || error == EINVAL) return fail(ErrorCode::unsupported, "the io_uring of this kernel is too old");
  return fail_sys(error, "set up io_uring");
}

}  // namespace

Result<void> try_rings(ByteView init) {
  if (!offers_rings(init)) {
    return fail(ErrorCode::unsupported,
                "the kernel does not offer FUSE over io_uring; it does from Linux 6.14 when "
                "/sys/module/fuse/parameters/enable_uring says Y");
  }
  struct io_uring ring {};
  TRY(set_up(ring));
  ::io_uring_queue_exit(&ring);
  return {};
}

unsigned ring_queues() {
  // "0-7", "0,2-5": the kernel counts from 0 to the highest.
  constexpr std::uint64_t kMaxBytes = 1 << 16;
  const auto bytes = read_file("/sys/devices/system/cpu/possible", kMaxBytes);
  unsigned highest = 0;
  if (!bytes) return 1;
  for (const std::string_view range : split(as_text(*bytes), ',')) {
    const std::string_view last = range.substr(range.find('-') + 1);  // all of it when there is none
    unsigned number = 0;
    std::from_chars(last.data(), last.data() + last.size(), number);
    highest = std::max(highest, number);
  }
  return highest + 1;
}

RingPlace::RingPlace(unsigned queue, std::size_t payload_bytes)
    : queue_(queue),
      memory_(std::make_unique_for_overwrite<std::uint8_t[]>(kPageBytes + payload_bytes)),
      payload_bytes_(payload_bytes),
      parts_{iovec{memory_.get(), sizeof(PlaceHeaders)}, iovec{memory_.get() + kPageBytes, payload_bytes}} {}

void RingPlace::put_answer(const iovec* vectors, int count) {
  auto* const headers = reinterpret_cast<PlaceHeaders*>(memory_.get());
  fuse_out_header header{};
  std::memcpy(&header, vectors[0].iov_base, sizeof header);
  std::size_t used = 0;
  for (int i = 1; i < count; ++i) {
    if (vectors[i].iov_len == 0) continue;
    if (vectors[i].iov_len > payload_bytes_ - used) {
      header.error = -EIO;  // more than the kernel asked for
      used = 0;
      break;
    }
    std::memcpy(memory_.get() + kPageBytes + used, vectors[i].iov_base, vectors[i].iov_len);
    used += vectors[i].iov_len;
  }
  header.len = static_cast<std::uint32_t>(sizeof header + used);
  std::memcpy(headers->in_out.data(), &header, sizeof header);
  headers->state.payload_size = static_cast<std::uint32_t>(used);
  unique_ = 0;
}

Result<std::unique_ptr<RingSeat>> RingSeat::create(int device) {
  auto seat = std::unique_ptr<RingSeat>(new RingSeat(device));
  TRY(set_up(seat->ring_));
  return seat;
}

RingSeat::~RingSeat() {
  if (ring_.ring_fd >= 0) ::io_uring_queue_exit(&ring_);
}

bool RingSeat::queue_command(RingPlace& place) {
  io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) return false;  // cannot be: one command at a time
  std::memset(entry, 0, 2 * sizeof *entry);
  entry->opcode = IORING_OP_URING_CMD;
  entry->fd = device_;
  entry->cmd_op = place.registered_ ? kCommitAndFetch : kRegister;
  Command command{};
  command.queue = static_cast<std::uint16_t>(place.queue_);
  command.commit_id = place.registered_ ? place.commit_id_ : 0;
  if (!place.registered_) {
    entry->addr = reinterpret_cast<std::uintptr_t>(place.parts_.data());
    entry->len = static_cast<std::uint32_t>(place.parts_.size());
  }
  std::memcpy(entry->cmd, &command, sizeof command);
  place.registered_ = true;
  in_kernel_ = true;
  return true;
}

int RingSeat::next(RingPlace& place, std::uint8_t* room, std::size_t room_bytes) {
  if (!in_kernel_) {
    if (!queue_command(place)) return -EIO;
    stand_back_.while_waking([this] { return ::io_uring_submit(&ring_); });  // what does not go now goes below
  }
  const int submitted = ::io_uring_submit_and_wait(&ring_, 1);
  io_uring_cqe* done = nullptr;
  if (::io_uring_peek_cqe(&ring_, &done) != 0 || done == nullptr) {
    return submitted < 0 && submitted != -EAGAIN && submitted != -EBUSY ? submitted : -EINTR;
  }
  const int result = done->res;
  ::io_uring_cqe_seen(&ring_, done);
  in_kernel_ = false;
  if (result < 0) return result;
  const auto* const headers = reinterpret_cast<const PlaceHeaders*>(place.memory_.get());
  fuse_in_header header{};
  std::memcpy(&header, headers->in_out.data(), sizeof header);
  place.commit_id_ = headers->state.commit_id;
  place.unique_ = header.unique;
  const std::size_t payload = headers->state.payload_size;
  const std::size_t operation = header.len - sizeof header - payload;
  // The kernel's own numbers; what does not add up is answered by who calls, since nothing of it can be served.
  if (header.len < sizeof header + payload || operation > kHeaderBytes || payload > place.payload_bytes_ ||
      header.len > room_bytes) {
    header.opcode = 0;  // nothing has that
    header.len = sizeof header;
    std::memcpy(room, &header, sizeof header);
    return static_cast<int>(sizeof header);
  }
  std::memcpy(room, &header, sizeof header);
  std::memcpy(room + sizeof header, headers->operation.data(), operation);
  std::memcpy(room + sizeof header + operation, place.memory_.get() + kPageBytes, payload);
  return static_cast<int>(header.len);
}

void Rings::begin(RingPlace& place) {
  serving = &place;
  answered = false;
  losses_before = place.losses_;
}

bool Rings::end(RingPlace& place) {
  serving = nullptr;
  if (answered) return true;
  const std::lock_guard lock(mutex_);
  if (place.losses_ != losses_before) return false;
  log(LogLevel::error, "request_unanswered", {{"reason", "a mistake of lazyfsd; the reader gets EIO"}});
  fuse_out_header header{sizeof header, -EIO, place.unique_};
  const iovec vector{&header, sizeof header};
  place.put_answer(&vector, 1);
  return true;
}

bool Rings::answer(const iovec* vectors, int count) {
  fuse_out_header header{};
  if (count < 1 || vectors[0].iov_len < sizeof header) return false;
  std::memcpy(&header, vectors[0].iov_base, sizeof header);
  if (header.unique == 0) return false;  // a notification
  if (serving != nullptr && serving->unique_ == header.unique) {
    serving->put_answer(vectors, count);
    answered = true;
    return true;
  }
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(places_.begin(), places_.end(), [&](const auto& place) { return place->unique_ == header.unique; });
  if (found == places_.end()) return false;
  RingPlace& place = **found;
  ++place.losses_;
  place.put_answer(vectors, count);
  lost_.push_back(&place);
  return true;
}

RingPlace* Rings::take_lost() {
  const std::lock_guard lock(mutex_);
  if (lost_.empty()) return nullptr;
  RingPlace* const place = lost_.back();
  lost_.pop_back();
  return place;
}

}  // namespace dsec::fuse
