// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <unordered_map>

#include "base/guarded.h"
#include "store/decorators.h"

namespace dsec::store {

namespace {

class MergeSource final : public ChunkSource {
 public:
  explicit MergeSource(std::unique_ptr<ChunkSource> inner) : inner_(std::move(inner)) {}

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    auto flights = flights_.lock();
    const auto [place, is_first] = flights->try_emplace(request.digest);
    if (is_first) place->second = std::make_shared<Flight>();
    const std::shared_ptr<Flight> flight = place->second;
    flights.unlock();
    return is_first ? lead(request, deadline, *flight) : follow(request, deadline, *flight);
  }

 private:
  struct Flight {
    Guarded<std::optional<Result<Chunk>>> outcome;
  };

  Result<Chunk> lead(const ChunkRequest& request, Deadline deadline, Flight& flight) {
    Result<Chunk> outcome = inner_->fetch(request, deadline);
    flights_.lock()->erase(request.digest);  // before the waiters wake, so that a failure is not handed on for ever
    *flight.outcome.lock() = outcome;
    flight.outcome.notify_all();
    return outcome;
  }

  static Result<Chunk> follow(const ChunkRequest& request, Deadline deadline, Flight& flight) {
    auto outcome = flight.outcome.lock();
    if (!outcome.wait_until(deadline, [&] { return outcome->has_value(); })) {
      return fail(ErrorCode::timeout, "chunk {} did not arrive in time", request.digest.hex());
    }
    Result<Chunk> shared = **outcome;
    if (shared) shared->store_bytes = 0;
    return shared;
  }

  std::unique_ptr<ChunkSource> inner_;
  Guarded<std::unordered_map<Digest, std::shared_ptr<Flight>>> flights_;
};

}  // namespace

std::unique_ptr<ChunkSource> merge_in_flight(std::unique_ptr<ChunkSource> inner) {
  return std::make_unique<MergeSource>(std::move(inner));
}

}  // namespace dsec::store
