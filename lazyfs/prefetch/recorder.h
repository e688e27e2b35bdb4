// SPDX-License-Identifier: Apache-2.0
// Keeps in which order chunks are wanted for the first time.
#pragma once

#include <cstddef>
#include <unordered_set>

#include "base/digest.h"
#include "base/guarded.h"
#include "format/trace.h"
#include "tree/read_observers.h"

namespace dsec::prefetch {

// Thread-safe. What comes after kMaxRecorded different chunks is left out: by then a prefetch has long been overtaken.
class Recorder final : public tree::ReadObserver {
 public:
  static constexpr std::size_t kMaxRecorded = std::size_t{1} << 18;  // about 16 GiB of content

  void used(const Digest& digest) override;
  [[nodiscard]] format::Trace trace() const;

 private:
  struct State {
    format::Trace order;
    std::unordered_set<Digest> seen;
  };
  mutable Guarded<State> state_;
};

}  // namespace dsec::prefetch
