// SPDX-License-Identifier: Apache-2.0
#include "store/internal/store_queue.h"
#include "store/read_cost.h"
#include "store/sources.h"

namespace dsec::store {

namespace {

class PrioritizedPacks final : public PackReader {
 public:
  PrioritizedPacks(std::shared_ptr<PackReader> inner, unsigned max_prefetch)
      : inner_(std::move(inner)), queue_(max_prefetch) {}

  Result<PackBytes> read(const PackRequest& request, Deadline deadline) override {
    StoreQueue::Ticket ticket{request.urgency};
    const StageScope stage(Stage::store);
    const StoreQueue::Turn turn = TRY(queue_.enter(ticket, deadline));
    return inner_->read(request, deadline);
  }
  Result<std::uint64_t> size_of(const Digest& pack, Deadline deadline) override {
    return inner_->size_of(pack, deadline);
  }

 private:
  std::shared_ptr<PackReader> inner_;
  StoreQueue queue_;
};

}  // namespace

std::unique_ptr<PackReader> prioritized(std::shared_ptr<PackReader> inner, unsigned max_prefetch) {
  return std::make_unique<PrioritizedPacks>(std::move(inner), max_prefetch);
}

}  // namespace dsec::store
