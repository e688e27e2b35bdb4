// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <unordered_map>

#include "base/guarded.h"
#include "store/decorators.h"
#include "store/read_cost.h"

namespace dsec::store {

namespace {

class MergeSource final : public ChunkSource {
 public:
  MergeSource(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter)
      : inner_(std::move(inner)), meter_(std::move(meter)) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    auto flights = flights_.lock();
    const auto [place, is_first] = flights->try_emplace(request.digest);
    if (is_first) place->second = std::make_shared<Flight>(request.urgency);
    const std::shared_ptr<Flight> flight = place->second;
    flights.unlock();
    // What is fetched ahead may stand in a queue behind other demand.
    if (!is_first && flight->urgency > request.urgency) return inner_->fetch(request, deadline);
    return is_first ? lead(request, deadline, *flight) : follow(request, deadline, *flight);
  }

 private:
  struct Flight {
    explicit Flight(Urgency asked) : urgency(asked) {}
    const Urgency urgency;
    Guarded<std::optional<Result<Chunk>>> outcome;
  };

  Result<Chunk> lead(const ChunkRequest& request, Deadline deadline, Flight& flight) {
    Result<Chunk> outcome = inner_->fetch(request, deadline);
    flights_.lock()->erase(request.digest);  // before the waiters wake, so that a failure is not handed on for ever
    *flight.outcome.lock() = outcome;
    flight.outcome.notify_all();
    return outcome;
  }

  Result<Chunk> follow(const ChunkRequest& request, Deadline deadline, Flight& flight) {
    if (meter_) meter_->merged_waits.add();
    const StageScope stage(Stage::merge);
    auto outcome = flight.outcome.lock();
    if (!outcome.wait_until(deadline, [&] { return outcome->has_value(); })) {
      return fail(ErrorCode::timeout, "chunk {} did not arrive in time", request.digest.hex());
    }
    Result<Chunk> shared = **outcome;
    if (shared) shared->store_bytes = 0;
    return shared;
  }

  std::unique_ptr<ChunkSource> inner_;
  std::shared_ptr<FetchMeter> meter_;
  Guarded<std::unordered_map<Digest, std::shared_ptr<Flight>>> flights_;
};

}  // namespace

std::unique_ptr<ChunkSource> merge_in_flight(std::unique_ptr<ChunkSource> inner, std::shared_ptr<FetchMeter> meter) {
  return std::make_unique<MergeSource>(std::move(inner), std::move(meter));
}

}  // namespace dsec::store
