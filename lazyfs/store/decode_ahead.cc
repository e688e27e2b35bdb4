// SPDX-License-Identifier: Apache-2.0
#include "store/decode_ahead.h"

#include <algorithm>
#include <deque>
#include <list>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/guarded.h"
#include "base/log.h"
#include "format/pack.h"
#include "store/internal/forward_reads.h"

namespace dsec::store {

namespace {

constexpr std::size_t kMaxPacks = 64;         // whose readers are watched
constexpr std::size_t kMaxJobs = 64;          // beyond that readers are faster than we
constexpr std::chrono::seconds kPatience{5};  // for a chunk, and until what is known of packs is forgotten

// The chunks of packs by their place. For one thread.
class PackOrders {
 public:
  using Order = std::vector<format::PackEntry>;
  PackOrders(std::shared_ptr<PackReader> packs, std::size_t max_entries)
      : packs_(std::move(packs)), max_entries_(max_entries) {}

  // Empty for a pack that is damaged, gone or too large. Valid until the next call.
  const Order& of(const Digest& pack) {
    for (auto it = known_.begin(); it != known_.end(); ++it) {
      if (it->first != pack) continue;
      known_.splice(known_.begin(), known_, it);
      return it->second;
    }
    auto loaded = load(pack);
    known_.emplace_front(pack, loaded ? std::move(*loaded) : Order());  // one that failed is not read again and again
    total_ += known_.front().second.size();
    while (total_ > max_entries_ && known_.size() > 1) drop_oldest();
    return known_.front().second;
  }
  void forget() {
    known_.clear();
    total_ = 0;
  }
  [[nodiscard]] bool is_empty() const { return known_.empty(); }

 private:
  void drop_oldest() {
    total_ -= known_.back().second.size();
    known_.pop_back();
  }

  Result<Order> load(const Digest& pack) {
    const Deadline deadline = std::chrono::steady_clock::now() + kPatience;
    const std::uint64_t size = TRY(packs_->size_of(pack, deadline));
    if (size < format::kPackFooterBytes) return fail(ErrorCode::corrupt, "no pack");
    const auto read = [&](std::uint64_t offset, std::size_t length) {
      return packs_->read({pack, offset, length, Urgency::prefetch}, deadline);
    };
    const PackBytes last = TRY(read(size - format::kPackFooterBytes, format::kPackFooterBytes));
    const format::PackFooter footer = TRY(format::read_pack_footer(last.view(), size));
    if (footer.count > max_entries_) return fail(ErrorCode::unsupported, "too many chunks");
    const PackBytes index = TRY(read(footer.index_offset, footer.index_bytes()));
    Order order = TRY(format::read_pack_index(footer, index.view()));
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    return order;
  }

  std::shared_ptr<PackReader> packs_;
  std::size_t max_entries_;
  std::list<std::pair<Digest, Order>> known_;  // used last first
  std::size_t total_ = 0;
};

class DecodeAhead final : public ChunkSource {
 public:
  DecodeAhead(std::shared_ptr<MemoryCache> memory, std::shared_ptr<PackReader> packs, DecodeAheadOptions options)
      : memory_(std::move(memory)), options_(options), orders_(std::move(packs), options.max_entries) {
    thread_ = std::thread([this] { work(); });
  }
  ~DecodeAhead() override {
    state_.lock()->is_over = true;
    state_.notify_all();
    thread_.join();
  }

  Result<Chunk> fetch(const ChunkRequest& request, Deadline deadline) override {
    if (request.urgency == Urgency::demand && request.freshness == Freshness::any_copy) note(request);
    return memory_->fetch(request, deadline);
  }

 private:
  struct Job {
    Digest pack;
    Digest layer;
    ForwardReads::Range range;
  };
  struct State {
    std::unordered_map<Digest, ForwardReads> readers;  // by pack
    std::deque<Job> jobs;
    bool is_over = false;
  };

  void note(const ChunkRequest& request) {
    auto state = state_.lock();
    if (state->readers.size() >= kMaxPacks && state->readers.count(request.location.pack) == 0) state->readers.clear();
    ForwardReads& reader = state->readers.try_emplace(request.location.pack, forward_options()).first->second;
    const auto due = reader.note(request.location.offset, request.location.stored_bytes);
    if (!due || state->jobs.size() >= kMaxJobs) return;
    state->jobs.push_back({request.location.pack, request.layer, *due});
    state.unlock();
    state_.notify_one();
  }

  [[nodiscard]] ForwardReads::Options forward_options() const {
    ForwardReads::Options options;
    options.window_bytes = options.near_bytes = options_.window_bytes;
    options.streak = 4;
    return options;
  }

  void work() {
    while (true) {
      auto state = state_.lock();
      const auto until = std::chrono::steady_clock::now() + kPatience;
      const auto ready = [&] { return state->is_over || !state->jobs.empty(); };
      if (orders_.is_empty())
        state.wait(ready);
      else if (!state.wait_until(until, ready))
        orders_.forget();
      if (state->is_over) return;
      if (state->jobs.empty()) continue;
      const Job job = std::move(state->jobs.front());
      state->jobs.pop_front();
      state.unlock();
      bring(job);
    }
  }

  void bring(const Job& job) {
    const PackOrders::Order& order = orders_.of(job.pack);
    auto entry = std::lower_bound(order.begin(), order.end(), job.range.from,
                                  [](const auto& one, std::uint64_t offset) { return one.offset < offset; });
    for (; entry != order.end() && entry->offset < job.range.to; ++entry) {
      if (state_.lock()->is_over) return;
      ChunkRequest request;
      request.digest = entry->digest;
      request.location = {job.pack, entry->offset, entry->stored_bytes, entry->plain_bytes, entry->codec};
      request.layer = job.layer;
      if (!memory_->load(request, std::chrono::steady_clock::now() + kPatience)) return;
    }
  }

  std::shared_ptr<MemoryCache> memory_;
  DecodeAheadOptions options_;
  PackOrders orders_;  // of the thread
  Guarded<State> state_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<ChunkSource> decode_ahead(std::shared_ptr<MemoryCache> memory, std::shared_ptr<PackReader> packs,
                                          DecodeAheadOptions options) {
  return std::make_unique<DecodeAhead>(std::move(memory), std::move(packs), options);
}

}  // namespace dsec::store
