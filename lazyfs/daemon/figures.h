// SPDX-License-Identifier: Apache-2.0
// The figures of a daemon, added up: what `dsec fs stats` and the metrics are made of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "daemon/sight.h"
#include "fuse/observe.h"

namespace dsec::daemon {

// Of both mounts, by fuse::Operation.
struct RequestFigures {
  struct Operation {
    LatencyHistogram::Snapshot took;
    std::uint64_t eio = 0;
  };
  std::array<Operation, fuse::kOperations> operations;
  std::uint64_t overdue = 0;
  std::size_t in_flight = 0;
};
RequestFigures request_figures(const Sight& sight);

// Of one environment since it was first attached. Layers that others have too count for all of them: nobody can tell
// for whom a shared page was read.
struct EnvFigures {
  Digest env;
  std::vector<std::string> paths;
  std::vector<std::string> owners;
  std::size_t layers = 0;
  std::size_t shared_layers = 0;  // which another attached environment has
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;   // given to the kernel
  std::uint64_t store_bytes = 0;  // read from the store
  std::array<std::uint64_t, store::kOrigins> chunk_bytes{};
  std::uint64_t touched_bytes = 0;
};
// Sorted by digest.
std::vector<EnvFigures> env_figures(const Sight& sight);

// What was read from the store for readers and ahead of them.
struct StoreFigures {
  std::uint64_t demand_bytes = 0;
  std::uint64_t prefetch_bytes = 0;
};
StoreFigures store_figures(const store::PackMeter& meter);

LatencyHistogram::Snapshot sum(LatencyHistogram::Snapshot left, const LatencyHistogram::Snapshot& right);

}  // namespace dsec::daemon
