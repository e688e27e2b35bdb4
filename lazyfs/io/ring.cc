// SPDX-License-Identifier: Apache-2.0
#include "io/internal/ring.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "io/internal/range.h"

namespace dsec::io {

namespace {

using std::chrono::steady_clock;

// An interrupted or refused read is queued again so often; then its errno stands.
constexpr int kMaxRepeats = 100;
// The kernel reads at most about 2 GiB at once.
constexpr std::size_t kMaxReadBytes = std::size_t{1} << 30;
// How soon the submission queue is tried again when the kernel would not take it.
constexpr std::chrono::milliseconds kFlushPause{5};
// How long the destructor waits for reads that were given up.
constexpr std::chrono::milliseconds kFarewell{500};

bool is_passing(int error) { return error == EINTR || error == EAGAIN || error == EBUSY; }

}  // namespace

Result<std::unique_ptr<Ring>> Ring::create(unsigned depth) {
  auto ring = std::unique_ptr<Ring>(new Ring(depth));
  // Twice the depth: reads and what cancels them.
  const int failure = ::io_uring_queue_init(2 * depth, &ring->ring_, 0);
  if (failure != 0) {
    ring->ring_.ring_fd = -1;
    const int error = -failure;
    if (error == ENOSYS) return fail(ErrorCode::unsupported, "this kernel has no io_uring");
    if (error == EPERM || error == EACCES) {
      return fail(ErrorCode::unsupported, "io_uring is not allowed here (kernel.io_uring_disabled or seccomp)");
    }
    return fail_sys(error, "set up io_uring");
  }
  if ((ring->ring_.features & IORING_FEAT_EXT_ARG) == 0) {
    return fail(ErrorCode::unsupported, "the io_uring of this kernel is older than 5.11");
  }
  return ring;
}

Ring::~Ring() {
  if (ring_.ring_fd < 0) return;
  drive_until(steady_clock::now() + kFarewell, [](State& state) { return state.in_flight == 0; });
  if (const unsigned left = state_.lock()->in_flight; left > 0) {
    log(LogLevel::warn, "reads_left_behind", {{"count", fmt::format("{}", left)}});
  }
  ::io_uring_queue_exit(&ring_);
}

Result<Bytes> Ring::read(const std::shared_ptr<const Fd>& fd, std::uint64_t offset, Bytes buffer, std::size_t done,
                         Deadline deadline) {
  auto op = std::make_shared<Op>();
  op->fd = fd;
  op->offset = offset;
  op->buffer = std::move(buffer);
  op->done = done;
  const std::size_t length = op->buffer.size();
  if (!drive_until(deadline, [&](State& state) { return start(state, op); })) {
    return fail(ErrorCode::timeout, "{} reads were in flight until the deadline", depth_);
  }
  if (!drive_until(deadline, [&](State&) { return op->is_finished; })) {
    auto state = state_.lock();
    if (!op->is_finished) {
      op->is_abandoned = true;
      cancel(*op);
      return fail(ErrorCode::timeout, "{} bytes at {} did not arrive in time", length, offset);
    }
  }
  if (op->error != 0) return fail_sys(op->error, fmt::format("read {} bytes at {}", length, offset));
  if (op->done < length) return ends_early(offset, length, op->done);
  return std::move(op->buffer);
}

template <typename Attempt>
bool Ring::drive_until(Deadline deadline, Attempt attempt) {
  while (true) {
    bool flushed = true;
    {
      auto state = state_.lock();
      bool done = attempt(*state);
      if (!done && state->has_leader) {
        state.wait_until(deadline, [&] { return (done = attempt(*state)) || !state->has_leader; });
      }
      if (done) return true;
      if (has_passed(deadline)) return false;
      if (state->has_leader) continue;
      state->has_leader = true;
      flushed = flush();
    }
    sleep_until_completion(flushed ? deadline : std::min(deadline, steady_clock::now() + kFlushPause));
    auto state = state_.lock();
    state->has_leader = false;
    reap(*state);
    state_.notify_all();
  }
}

bool Ring::start(State& state, const std::shared_ptr<Op>& op) {
  if (state.in_flight == depth_ || !queue_read(*op)) return false;
  ++state.in_flight;
  op->self = op;
  flush();
  return true;
}

bool Ring::queue_read(Op& op) {
  struct io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) return false;
  const std::size_t length = std::min(op.buffer.size() - op.done, kMaxReadBytes);
  ::io_uring_prep_read(entry, op.fd->get(), op.buffer.data() + op.done, static_cast<unsigned>(length),
                       op.offset + op.done);
  ::io_uring_sqe_set_data(entry, &op);
  return true;
}

// Helps where the kernel can give the read up (a pipe, a queue); a read that a device has is waited for.
void Ring::cancel(Op& op) {
  struct io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) return;
  ::io_uring_prep_cancel(entry, &op, 0);
  ::io_uring_sqe_set_data(entry, nullptr);
  flush();
}

// Whether the kernel has taken all that was queued; what it has not stays queued.
bool Ring::flush() {
  while (::io_uring_sq_ready(&ring_) > 0) {
    if (::io_uring_submit(&ring_) <= 0) return false;
  }
  return true;
}

void Ring::sleep_until_completion(Deadline deadline) {
  struct __kernel_timespec timeout {};
  struct io_uring_getevents_arg argument {};
  if (deadline != Deadline::max()) {
    const auto left = std::max(std::chrono::nanoseconds(0),
                               std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - steady_clock::now()));
    timeout.tv_sec = left.count() / 1'000'000'000;
    timeout.tv_nsec = left.count() % 1'000'000'000;
    argument.ts = reinterpret_cast<std::uintptr_t>(&timeout);
  }
  // An error (EINTR, ETIME) means to look again, which the caller does.
  ::io_uring_enter2(static_cast<unsigned>(ring_.enter_ring_fd), 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                    reinterpret_cast<sigset_t*>(&argument), sizeof argument);
}

void Ring::reap(State& state) {
  struct io_uring_cqe* entry = nullptr;
  while (::io_uring_peek_cqe(&ring_, &entry) == 0) {
    auto* op = static_cast<Op*>(::io_uring_cqe_get_data(entry));
    const int result = entry->res;
    ::io_uring_cqe_seen(&ring_, entry);
    if (op != nullptr) complete(state, *op, result);
  }
}

void Ring::complete(State& state, Op& op, int result) {
  if (result > 0) op.done += static_cast<std::size_t>(result);
  const bool is_short = result > 0 && op.done < op.buffer.size();
  // A thread that ends takes the reads with it that it happened to queue for others.
  const bool failed_in_passing = result < 0 && (is_passing(-result) || result == -ECANCELED);
  const bool again = is_short || (failed_in_passing && ++op.repeats <= kMaxRepeats);
  if (again && !op.is_abandoned && queue_read(op)) {
    flush();
    return;
  }
  if (result < 0) op.error = -result;
  op.is_finished = true;
  --state.in_flight;
  const std::shared_ptr<Op> last = std::move(op.self);
}

}  // namespace dsec::io
