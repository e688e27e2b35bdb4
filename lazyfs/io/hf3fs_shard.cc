// SPDX-License-Identifier: Apache-2.0
#include "io/internal/hf3fs_shard.h"

#include <algorithm>

#include "base/log.h"

namespace dsec::io {

Hf3fsShard::Hf3fsShard(std::shared_ptr<const Hf3fsApi> api, const Hf3fsOptions& options)
    : api_(std::move(api)), options_(options) {
  state_.lock()->pause = options.first_retry;
}

Result<std::shared_ptr<Hf3fsRing>> Hf3fsShard::ring(Deadline deadline) {
  std::shared_ptr<Hf3fsRing> old;
  {
    auto state = state_.lock();
    if (!state.wait_until(deadline, [&] { return !state->opening; })) {
      return fail(ErrorCode::unavailable, "a 3FS ring is still being opened");
    }
    if (state->ring) return state->ring;
    if (!has_passed(state->retry_at)) return fail(ErrorCode::unavailable, "a 3FS ring is closed after failures");
    state->opening = true;
    old = std::move(state->closed);
  }
  old.reset();
  Hf3fsRingOptions wanted{options_.mount_point,
                          options_.slots,
                          options_.slot_bytes,
                          options_.io_depth,
                          static_cast<int>(options_.batch_wait.count()),
                          options_.numa};
  auto opened = Hf3fsRing::open(api_, wanted);
  auto state = state_.lock();
  state->opening = false;
  if (opened) {
    state->ring = *opened;
    options_.counters->rings_opened.add();
  } else {
    close_until_later(*state, opened.error().message);
  }
  state.unlock();
  state_.notify_all();
  return opened;
}

void Hf3fsShard::note(const std::shared_ptr<Hf3fsRing>& ring, Outcome outcome) {
  auto state = state_.lock();
  if (state->ring != ring) return;  // of one that is closed already
  if (outcome == Outcome::answered) {
    state->failures = 0;
    state->pause = options_.first_retry;
    return;
  }
  options_.counters->failures.add();
  ++state->failures;
  if (state->failures < options_.max_failures && !ring->broken()) return;
  state->closed = std::move(state->ring);
  options_.counters->rings_closed.add();
  close_until_later(*state, fmt::format("{} failures in a row", state->failures));
}

void Hf3fsShard::close_until_later(State& state, std::string_view why) const {
  log(LogLevel::warn, "hf3fs_ring_closed",
      {{"why", std::string(why)}, {"retry_in_ms", std::to_string(state.pause.count())}});
  state.ring.reset();
  state.failures = 0;
  state.retry_at = std::chrono::steady_clock::now() + state.pause;
  state.pause = std::min(state.pause * 2, options_.last_retry);
}

}  // namespace dsec::io
