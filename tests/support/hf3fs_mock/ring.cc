// SPDX-License-Identifier: Apache-2.0
#include "ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "state.h"

namespace hf3fs_mock {

namespace {

constexpr std::uint8_t kPoison = 0xee;  // what a buffer holds until its request is done
constexpr auto kTick = std::chrono::milliseconds(1);

// Requests of all rings so far, for the faults that hit every so-many-th.
std::atomic<long> error_ticks, short_ticks, over_ticks, never_ticks, stray_ticks;

bool overlap(const Request& a, const Request& b) { return a.data < b.data + b.length && b.data < a.data + a.length; }

// How much of a range there is before a hole or the end of the file; `hole_inside` when data follows a hole in it.
struct Extent {
  std::size_t bytes = 0;
  bool hole_inside = false;
  bool hole_at_end = false;
};
Extent extent_of(const Request& request) {
  struct stat now {};
  if (::fstat(request.file->own, &now) != 0 || request.offset >= static_cast<std::size_t>(now.st_size)) return {};
  const off_t end =
      static_cast<off_t>(std::min(request.offset + request.length, static_cast<std::size_t>(now.st_size)));
  const auto start = static_cast<off_t>(request.offset);
  const off_t hole = ::lseek(request.file->own, start, SEEK_HOLE);
  if (hole < 0 || hole >= end) return {static_cast<std::size_t>(end - start)};
  const off_t data = ::lseek(request.file->own, hole, SEEK_DATA);
  const bool inside = data >= 0 && data < end;
  return {static_cast<std::size_t>(hole - start), inside, !inside};
}

}  // namespace

Ring::Ring(int entries, int io_depth, std::uint64_t flags) : entries_(entries), io_depth_(io_depth), flags_(flags) {
  if (io_depth > 0) breach("a ring with exact batches: requests may wait for others for ever");
  for (int i = entries; i > 0; --i) free_.push_back(i - 1);
  const auto workers = static_cast<unsigned>(numbers().workers.load());
  for (unsigned i = 0; i < workers; ++i) workers_.emplace_back([this, i] { work(i); });
}

Ring::~Ring() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  numbers().ended_in_flight += static_cast<long>(requests_.size());
  numbers().in_flight -= static_cast<long>(requests_.size());
}

// ---- the caller's side

void Ring::same_thread(std::optional<std::thread::id>& known, const char* what) {
  if (!known) known = std::this_thread::get_id();
  if (*known != std::this_thread::get_id()) breach(std::string("two threads ") + what);
}

int Ring::check(const Request& request) {
  const Iov& iov = *request.iov;
  if (request.data < iov.base || request.length > iov.size || request.data + request.length > iov.base + iov.size) {
    breach("a request outside of its memory");
    return -EINVAL;
  }
  const auto at = static_cast<std::size_t>(request.data - iov.base);
  if (iov.block_size != 0 && at / iov.block_size != (at + request.length - 1) / iov.block_size) {
    breach("a request across two blocks");
    return -EINVAL;
  }
  for (const Request& other : requests_) {
    if (overlap(request, other)) breach("a request into memory that another one in flight uses");
  }
  return 0;
}

int Ring::prepare(Request request) {
  numbers().preps++;
  const std::lock_guard lock(mutex_);
  same_thread(preparing_, "prepare or submit on one ring");
  if (const long error = numbers().prep_errno; error != 0) return -static_cast<int>(error);
  if (request.length == 0) return -EINVAL;
  if (!request.file) return -EBADF;
  if ((request.file->flags & O_ACCMODE) == O_WRONLY) return -EACCES;
  if (const int error = check(request); error != 0) return error;
  if (free_.empty()) return -EAGAIN;
  std::memset(request.data, kPoison, request.length);
  request.index = free_.back();
  free_.pop_back();
  requests_.push_back(request);
  numbers().in_flight++;
  changed_.notify_all();
  return request.index;
}

int Ring::submit() {
  numbers().submits++;
  const std::lock_guard lock(mutex_);
  same_thread(preparing_, "prepare or submit on one ring");
  for (Request& request : requests_) {
    if (request.stage == Request::Stage::prepared) request.stage = Request::Stage::submitted;
  }
  changed_.notify_all();
  // Fails although what was prepared runs: the other side looks by itself as well.
  return -static_cast<int>(numbers().submit_errno.load());
}

int Ring::wait(dsec::io::Hf3fsCqe* cqes, int size, int min_results, const struct timespec* until) {
  numbers().waits++;
  std::unique_lock lock(mutex_);
  same_thread(waiting_, "wait on one ring");
  if (const long error = numbers().wait_errno; error != 0) return -static_cast<int>(error);
  if (size <= 0) return -EINVAL;
  const auto enough = [&] { return static_cast<long>(done_.size()) + strays_ >= std::min(min_results, size); };
  if (until == nullptr) {
    changed_.wait(lock, enough);
  } else {
    const auto since = std::chrono::seconds(until->tv_sec) + std::chrono::nanoseconds(until->tv_nsec);
    using Clock = std::chrono::system_clock;
    changed_.wait_until(lock, Clock::time_point(std::chrono::duration_cast<Clock::duration>(since)), enough);
  }
  int count = 0;
  for (; strays_ > 0 && count < size; --strays_) cqes[count++] = {-1, 0, 0, this};
  for (; !done_.empty() && count < size; ++count) {
    const auto request = done_.front();
    done_.pop_front();
    cqes[count] = {request->index, 0, request->result, request->userdata};
    free_.push_back(request->index);
    requests_.erase(request);
    numbers().in_flight--;
    numbers().reaped++;
  }
  return count;
}

bool Ring::uses(const File& file) {
  const std::lock_guard lock(mutex_);
  return std::any_of(requests_.begin(), requests_.end(), [&](const Request& r) { return r.file.get() == &file; });
}

bool Ring::uses(const Iov& iov) {
  const std::lock_guard lock(mutex_);
  return std::any_of(requests_.begin(), requests_.end(), [&](const Request& r) { return r.iov == &iov; });
}

// ---- the workers

// A request that may run now, or the end.
Ring::Requests::iterator Ring::next(std::mt19937_64& random) {
  std::vector<Requests::iterator> ready;
  for (auto request = requests_.begin(); request != requests_.end(); ++request) {
    const bool early = numbers().early != 0 && request->stage == Request::Stage::prepared && random() % 2 == 0;
    if (early || request->stage == Request::Stage::submitted) ready.push_back(request);
  }
  if (ready.empty() || static_cast<int>(ready.size()) < io_depth_) return requests_.end();
  return ready[numbers().reorder != 0 ? random() % ready.size() : 0];
}

void Ring::work(unsigned number) {
  std::mt19937_64 random(static_cast<std::uint64_t>(numbers().seed.load()) + number);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto request = next(random);
    if (request == requests_.end()) {
      changed_.wait_for(lock, requests_.empty() ? 20 * kTick : kTick);
      continue;
    }
    if (request->stage == Request::Stage::prepared) numbers().early_runs++;
    request->stage = Request::Stage::running;
    if (is_turn(numbers().never_every, never_ticks)) continue;
    lock.unlock();
    if (const long delay = numbers().delay_us; delay > 0) ::usleep(static_cast<useconds_t>(delay));
    const std::int64_t result = read(*request);
    lock.lock();
    while (numbers().hold != 0 && !stopping_) changed_.wait_for(lock, kTick);
    request->result = result;
    request->stage = Request::Stage::done;
    done_.push_back(request);
    if (is_turn(numbers().stray_every, stray_ticks)) ++strays_;
    changed_.notify_all();
  }
}

// Bytes, or -errno; what the rules say about holes included.
std::int64_t Ring::read(const Request& request) const {
  if (is_turn(numbers().error_every, error_ticks)) return -numbers().error_errno.load();
  struct stat now {};
  if (::fstat(request.file->own, &now) == 0 && !S_ISREG(now.st_mode)) return -EBADF;
  const Extent extent = extent_of(request);
  if ((extent.hole_inside || extent.hole_at_end) && (flags_ & dsec::io::kHf3fsForbidReadHoles) == 0) {
    breach("a read of a hole through a ring that does not forbid them");
  }
  if (extent.hole_inside) return -ENODATA;
  std::size_t wanted = extent.bytes;
  if (wanted > 1 && is_turn(numbers().short_every, short_ticks)) wanted /= 2;
  std::size_t at = 0;
  while (at < wanted) {
    const ssize_t n =
        ::pread(request.file->own, request.data + at, wanted - at, static_cast<off_t>(request.offset + at));
    if (n < 0) return -errno;
    if (n == 0) break;
    at += static_cast<std::size_t>(n);
  }
  if (is_turn(numbers().over_every, over_ticks)) return static_cast<std::int64_t>(request.length) + 1;
  return static_cast<std::int64_t>(at);
}

}  // namespace hf3fs_mock
