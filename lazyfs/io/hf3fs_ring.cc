// SPDX-License-Identifier: Apache-2.0
#include "io/internal/hf3fs_ring.h"

#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace dsec::io {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPoll{200};        // how long one wait in the library lasts at most
constexpr milliseconds kDrain{200};       // how long a closed ring waits for what is in flight
constexpr unsigned kMaxWaitFailures = 3;  // in a row, before the ring is given up
constexpr milliseconds kWaitPause{5};     // after each

// The point `after` from now on the clock that the library looks at.
struct timespec real_time_in(milliseconds after) {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  constexpr long kNanosPerSecond = 1000000000;
  const long nanos = now.tv_nsec + static_cast<long>(after.count() % 1000) * 1000000;
  return {now.tv_sec + static_cast<time_t>(after.count() / 1000) + nanos / kNanosPerSecond, nanos % kNanosPerSecond};
}

// What came of a request. `ring` says that the ring failed and that `result` tells nothing about the file.
struct Outcome {
  std::int64_t result = 0;  // bytes or -errno
  enum class Of { request, ring } of = Of::request;
};

Result<std::size_t> as_count(const Outcome& outcome, std::size_t length) {
  if (outcome.of == Outcome::Of::ring) {
    return fail(ErrorCode::unavailable, "a 3FS ring failed: {}", errno_text(static_cast<int>(-outcome.result)));
  }
  if (outcome.result == -ENODATA) return fail(ErrorCode::corrupt, "there is a hole in the file");
  if (outcome.result < 0) return fail_sys(static_cast<int>(-outcome.result), "read through a 3FS ring");
  if (static_cast<std::uint64_t>(outcome.result) > length) {
    return fail(ErrorCode::unavailable, "a 3FS ring says {} bytes came of {}", outcome.result, length);
  }
  return static_cast<std::size_t>(outcome.result);
}

}  // namespace

struct Hf3fsRing::Request {
  std::shared_ptr<const Hf3fsFile> file;
  std::uint64_t offset = 0;
  Target target;

  // Under the ring's lock.
  enum class Stage { queued, in_flight, over } stage = Stage::queued;
  bool given_up = false;
  std::size_t slot = 0;

  Guarded<std::optional<Outcome>> outcome;

  // The first outcome counts: that of a submission that failed, although the request ran.
  void settle(Outcome what) {
    {
      auto answer = outcome.lock();
      if (!answer->has_value()) *answer = what;
    }
    outcome.notify_all();
  }
};

class Hf3fsRing::Parts {
 public:
  explicit Parts(std::shared_ptr<const Hf3fsApi> api) : api_(std::move(api)) {}
  ~Parts() {
    if (has_ior_) api_->iordestroy(&ior);
    if (has_iov_) api_->iovdestroy(&iov);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  Result<void> make(const Hf3fsRingOptions& options) {
    const char* mount_point = options.mount_point.c_str();
    // A block for each slot: no request can cross one.
    int error =
        api_->iovcreate(&iov, mount_point, options.slots * options.slot_bytes, options.slot_bytes, options.numa);
    if (error < 0) return fail_sys(-error, "make the memory of a 3FS ring");
    has_iov_ = true;
    error = api_->iorcreate4(&ior, mount_point, static_cast<int>(options.slots), true, options.io_depth,
                             options.batch_wait_ms, options.numa, kHf3fsForbidReadHoles);
    if (error < 0) return fail_sys(-error, "make a 3FS ring");
    has_ior_ = true;
    return {};
  }

  Hf3fsIov iov{};
  Hf3fsIor ior{};

 private:
  std::shared_ptr<const Hf3fsApi> api_;
  bool has_iov_ = false;
  bool has_ior_ = false;
};

Result<std::shared_ptr<Hf3fsRing>> Hf3fsRing::open(std::shared_ptr<const Hf3fsApi> api,
                                                   const Hf3fsRingOptions& options) {
  auto parts = std::make_unique<Parts>(api);
  TRY(parts->make(options));
  return std::shared_ptr<Hf3fsRing>(new Hf3fsRing(std::move(api), options, std::move(parts)));
}

Hf3fsRing::Hf3fsRing(std::shared_ptr<const Hf3fsApi> api, const Hf3fsRingOptions& options, std::unique_ptr<Parts> parts)
    : api_(std::move(api)), slot_bytes_(options.slot_bytes), parts_(std::move(parts)) {
  {
    auto state = state_.lock();
    state->slots.resize(options.slots);
    for (std::size_t slot = options.slots; slot > 0; --slot) state->free.push_back(slot - 1);
  }
  submitter_ = std::thread([this] { submit_loop(); });
  reaper_ = std::thread([this] { reap_loop(); });
}

Hf3fsRing::~Hf3fsRing() {
  state_.lock()->stopping = true;
  state_.notify_all();
  submitter_.join();
  reaper_.join();
  parts_.reset();  // before the files of what is still in flight
}

Hf3fsRing::Read Hf3fsRing::start(std::shared_ptr<const Hf3fsFile> file, std::uint64_t offset, Target target) {
  auto request = std::make_shared<Request>();
  request->file = std::move(file);
  request->offset = offset;
  request->target = std::move(target);
  {
    auto state = state_.lock();
    if (state->broken) {
      request->stage = Request::Stage::over;
      request->settle({-EIO, Outcome::Of::ring});
    } else {
      state->queue.push_back(request);
    }
  }
  state_.notify_all();
  return Read(shared_from_this(), std::move(request));
}

bool Hf3fsRing::broken() { return state_.lock()->broken; }

std::uint8_t* Hf3fsRing::slot_data(std::size_t slot) const { return parts_->iov.base + slot * slot_bytes_; }

// ---- the caller's side

Hf3fsRing::Read::~Read() {
  if (request_) ring_->give_up(request_);
}

Result<std::size_t> Hf3fsRing::Read::wait(Deadline deadline) {
  std::optional<Outcome> outcome;
  {
    auto answer = request_->outcome.lock();
    const auto is_there = [&] { return answer->has_value(); };
    if (deadline == Deadline::max()) {
      answer.wait(is_there);
    } else {
      answer.wait_until(deadline, is_there);
    }
    outcome = *answer;
  }
  if (!outcome) {
    return fail(ErrorCode::timeout, "3FS did not answer a read of {} bytes at {} in time", request_->target.length,
                request_->offset);
  }
  return as_count(*outcome, request_->target.length);
}

// Takes a request from the ring on behalf of its caller, whatever became of it.
void Hf3fsRing::give_up(const std::shared_ptr<Request>& request) {
  auto state = state_.lock();
  request->given_up = true;
}

// A request that the library is done with gives its slot back.
void Hf3fsRing::release(State& state, Request& request) {
  --state.in_flight;
  request.stage = Request::Stage::over;
  state.slots[request.slot].reset();
  state.free.push_back(request.slot);
}

// ---- the submitting thread

void Hf3fsRing::submit_loop() {
  for (;;) {
    const Batch batch = take_batch();
    if (batch.empty()) break;
    submit(batch);
  }
  auto state = state_.lock();
  for (const auto& request : state->queue) {
    request->stage = Request::Stage::over;
    request->settle({-ECANCELED, Outcome::Of::ring});
  }
  state->queue.clear();
}

// Requests with a slot each, which count as in flight from here on: the library may run one as soon as it is prepared.
// Empty when the ring stops.
Hf3fsRing::Batch Hf3fsRing::take_batch() {
  Batch batch;
  auto state = state_.lock();
  while (batch.empty()) {
    state.wait([&] { return state->stopping || (!state->queue.empty() && !state->free.empty()); });
    if (state->stopping) return {};
    while (!state->queue.empty() && !state->free.empty()) {
      auto request = std::move(state->queue.front());
      state->queue.pop_front();
      if (request->given_up) continue;
      request->stage = Request::Stage::in_flight;
      request->slot = state->free.back();
      state->free.pop_back();
      state->slots[request->slot] = request;
      ++state->in_flight;
      batch.push_back(std::move(request));
    }
  }
  state.unlock();
  state_.notify_all();
  return batch;
}

void Hf3fsRing::submit(const Batch& batch) {
  Batch prepared;
  for (const auto& request : batch) {
    std::uint8_t* data = slot_data(request->slot);  // also its name in the completion
    const int index = api_->prep_io(&parts_->ior, &parts_->iov, true, data, request->file->fd(), request->offset,
                                    request->target.length, data);
    if (index >= 0) {
      prepared.push_back(request);
      continue;
    }
    auto state = state_.lock();
    release(*state, *request);
    request->settle({index, Outcome::Of::ring});
  }
  if (prepared.empty()) return;
  // The process on the other side also looks by itself, so a failed submission may run all the same: the callers are
  // told of the failure, the slots stay taken.
  if (const int error = api_->submit_ios(&parts_->ior); error < 0) {
    for (const auto& request : prepared) request->settle({error, Outcome::Of::ring});
  }
}

// ---- the waiting thread

void Hf3fsRing::reap_loop() {
  std::vector<Hf3fsCqe> cqes(state_.lock()->slots.size());
  Deadline last = Deadline::max();
  unsigned failures = 0;
  while (has_work(last)) {
    failures = reap(cqes) ? 0 : failures + 1;
    if (failures == kMaxWaitFailures) fail_all(EIO);
    if (failures > 0) std::this_thread::sleep_for(kWaitPause);
  }
}

// False when the ring stops and has had time to drain; `last` is until when, once it stops.
bool Hf3fsRing::has_work(Deadline& last) {
  auto state = state_.lock();
  state.wait([&] { return state->stopping || state->in_flight > 0; });
  if (!state->stopping) return true;
  if (last == Deadline::max()) last = Clock::now() + kDrain;
  return state->in_flight > 0 && !state->broken && !has_passed(last);
}

bool Hf3fsRing::reap(std::vector<Hf3fsCqe>& cqes) {
  const struct timespec until = real_time_in(kPoll);
  const int count = api_->wait_for_ios(&parts_->ior, cqes.data(), static_cast<int>(cqes.size()), 1, &until);
  for (int i = 0; i < count; ++i) complete(cqes[static_cast<std::size_t>(i)]);
  if (count > 0) state_.notify_all();
  return count >= 0;
}

void Hf3fsRing::complete(const Hf3fsCqe& cqe) {
  std::shared_ptr<Request> request;
  bool is_wanted = false;
  {
    auto state = state_.lock();
    request = in_slot(*state, cqe);
    is_wanted = request && !request->given_up;
  }
  if (!request) {
    log(LogLevel::warn, "hf3fs_stray_completion", {{"index", std::to_string(cqe.index)}});
    return;
  }
  if (is_wanted) copy_out(*request, cqe.result);
  auto state = state_.lock();
  release(*state, *request);
  request->settle({cqe.result, Outcome::Of::request});
}

std::shared_ptr<Hf3fsRing::Request> Hf3fsRing::in_slot(const State& state, const Hf3fsCqe& cqe) const {
  const std::uintptr_t at =
      reinterpret_cast<std::uintptr_t>(cqe.userdata) - reinterpret_cast<std::uintptr_t>(parts_->iov.base);
  const std::size_t slot = at / slot_bytes_;
  return at % slot_bytes_ == 0 && slot < state.slots.size() ? state.slots[slot] : nullptr;
}

void Hf3fsRing::copy_out(const Request& request, std::int64_t count) const {
  const Target& target = request.target;
  if (count <= 0 || static_cast<std::uint64_t>(count) > target.length) return;
  std::memcpy(target.buffer->data() + target.at, slot_data(request.slot), static_cast<std::size_t>(count));
}

// The ring answers no more. Slots in flight stay taken.
void Hf3fsRing::fail_all(int error) {
  auto state = state_.lock();
  state->broken = true;
  for (const auto& request : state->queue) {
    request->stage = Request::Stage::over;
    request->settle({-error, Outcome::Of::ring});
  }
  state->queue.clear();
  for (const auto& request : state->slots) {
    if (request && request->stage == Request::Stage::in_flight) request->settle({-error, Outcome::Of::ring});
  }
}

}  // namespace dsec::io
