// SPDX-License-Identifier: Apache-2.0
// A ring that is opened when needed, closed when it fails, and opened again later.
#pragma once

#include "io/hf3fs.h"
#include "io/internal/hf3fs_ring.h"

namespace dsec::io {

// One of an engine's rings over time. Thread-safe.
class Hf3fsShard {
 public:
  Hf3fsShard(std::shared_ptr<const Hf3fsApi> api, const Hf3fsOptions& options);

  // The ring, opened by the first caller while the others wait for it, until `deadline`. `unavailable` while it is
  // closed after failures; the library's errno when it cannot be opened, which closes it as well.
  Result<std::shared_ptr<Hf3fsRing>> ring(Deadline deadline);

  enum class Outcome { answered, failed };
  // What came of a request on `ring`. The last of `max_failures` failures in a row closes it.
  void note(const std::shared_ptr<Hf3fsRing>& ring, Outcome outcome);

 private:
  struct State {
    std::shared_ptr<Hf3fsRing> ring;
    std::shared_ptr<Hf3fsRing> closed;  // still has requests in flight; ends before another is opened
    bool opening = false;
    unsigned failures = 0;
    std::chrono::milliseconds pause{0};
    Deadline retry_at{};
  };
  void close_until_later(State& state, std::string_view why) const;

  std::shared_ptr<const Hf3fsApi> api_;
  Hf3fsOptions options_;
  Guarded<State> state_;
};

}  // namespace dsec::io
