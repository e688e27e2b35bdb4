// SPDX-License-Identifier: Apache-2.0
// From libfuse's callbacks to the namespace and back.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>

#include "base/guarded.h"
#include "fuse/internal/libfuse.h"
#include "fuse/internal/observer.h"
#include "fuse/internal/request.h"
#include "fuse/internal/wire.h"
#include "fuse/session.h"

namespace dsec::fuse {

// What the callbacks work with; the user data of the libfuse session. Thread-safe.
class Dispatcher {
 public:
  // `wire` outlives it.
  Dispatcher(std::shared_ptr<const tree::Namespace> names, SessionOptions options, Wire& wire)
      : names_(std::move(names)), options_(options), wire_(wire), observer_(options.tap) {}

  static const fuse_lowlevel_ops& operations();

  [[nodiscard]] const RequestCounts& counts() const { return counts_; }
  [[nodiscard]] const RequestStats& stats() const { return observer_.stats(); }
  [[nodiscard]] std::vector<InFlight> requests_in_flight() const { return watchdog_.requests(Watchdog::Clock::now()); }
  Watchdog& watchdog() { return watchdog_; }
  Wire& wire() { return wire_; }

 private:
  struct Ops;

  // Listings of directories that are being read: without OPENDIR there is no handle to keep them in. Least recently
  // used out first; one that is made again is the same, since trees are immutable.
  Result<std::shared_ptr<const tree::DirectoryListing>> listing(tree::NodeId directory);
  void forget_listing(tree::NodeId directory);
  enum class Plus { no, yes };
  Result<std::vector<char>> fill_directory(fuse_req_t request, tree::NodeId directory, std::size_t size,
                                           std::size_t first, Plus plus);

  static constexpr std::size_t kMaxListings = 256;
  struct Listings {
    using Item = std::pair<tree::NodeId, std::shared_ptr<const tree::DirectoryListing>>;
    std::list<Item> order;
    std::unordered_map<tree::NodeId, std::list<Item>::iterator> places;
  };

  std::shared_ptr<const tree::Namespace> names_;
  SessionOptions options_;
  Wire& wire_;
  RequestCounts counts_;
  Observer observer_;
  Watchdog watchdog_;
  Guarded<Listings> listings_;
};

}  // namespace dsec::fuse
