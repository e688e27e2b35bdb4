// SPDX-License-Identifier: Apache-2.0
#include "prefetch/recorder.h"

namespace dsec::prefetch {

void Recorder::used(const Digest& digest) {
  auto state = state_.lock();
  if (state->order.size() < kMaxRecorded && state->seen.insert(digest).second) state->order.push_back(digest);
}

format::Trace Recorder::trace() const { return state_.lock()->order; }

}  // namespace dsec::prefetch
