// SPDX-License-Identifier: Apache-2.0
#include "store/node_cache.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/log.h"
#include "store/internal/cache_keeper.h"
#include "store/internal/read_ahead.h"
#include "store/internal/store_queue.h"
#include "store/read_cost.h"

namespace dsec::store {

namespace {

// One read of the store at most.
constexpr std::uint64_t kMaxFetchBlocks = (4 << 20) / kBlockBytes;
// No pack is larger; keeps block and window numbers in their types.
constexpr std::uint64_t kMaxPackBytes = std::uint64_t{1} << 46;
// How long a reader waits for the writer to take what it fetched.
constexpr std::chrono::milliseconds kOfferPatience{1000};
// Dropped windows are logged no more often than this; the counter has all.
constexpr std::chrono::seconds kTellingPause{10};

// Some blocks back to back, from the cache or a fetch.
struct Piece {
  std::shared_ptr<const Bytes> buffer;
  ByteView bytes;              // in it
  std::uint64_t position = 0;  // of the bytes, in the pack
  Origin origin = Origin::store;
  std::uint64_t store_bytes = 0;
  [[nodiscard]] std::uint64_t end_block() const { return blocks_of(position + bytes.size()); }
};

// A fetch of blocks that is going on, or whose bytes are not written yet.
struct Flight {
  Digest pack;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  StoreQueue::Ticket ticket;
  std::optional<Result<PackBytes>> outcome;
  std::atomic<bool> is_unwanted = false;  // its bytes turned out to be wrong

  [[nodiscard]] bool has(const Digest& of, std::uint64_t block) const {
    return pack == of && block >= first && block - first < count && !is_unwanted;
  }
};

class NodeCacheImpl final : public NodeCache {
 public:
  NodeCacheImpl(std::shared_ptr<PackReader> inner, std::shared_ptr<io::ReadEngine> disk,
                const NodeCacheOptions& options)
      : inner_(std::move(inner)),
        queue_(options.max_prefetch),
        flights_(Flights{{},
                         {blocks_of(options.fetch_first_bytes),
                          std::clamp<std::uint64_t>(blocks_of(options.fetch_window_bytes), 1, kMaxFetchBlocks)}}),
        keeper_(options, std::move(disk)) {}

  Result<PackBytes> read(const PackRequest& request, Deadline deadline) override {
    if (!is_possible(request.offset, request.length)) {
      return fail(ErrorCode::corrupt, "pack {} cannot have {} bytes at {}", request.pack.hex(), request.length,
                  request.offset);
    }
    const std::shared_ptr<CacheDir> dir = keeper_.dir();
    if (request.freshness == Freshness::from_store) forget(dir.get(), request);
    if (!dir || request.freshness == Freshness::from_store || request.length == 0) {
      return read_around(request, deadline);
    }
    return read_through(*dir, request, deadline);
  }

  Result<std::uint64_t> size_of(const Digest& pack, Deadline deadline) override {
    return inner_->size_of(pack, deadline);
  }

  [[nodiscard]] NodeCacheStats stats() const override {
    NodeCacheStats stats;
    keeper_.describe(stats);
    stats.hits = hits_.get();
    stats.misses = misses_.get();
    stats.disk_bytes = disk_bytes_.get();
    stats.store_bytes = store_bytes_.get();
    stats.store_reads = store_reads_.get();
    stats.merged_waits = merged_.get();
    stats.dropped_corrupt = dropped_.get();
    stats.uncached_reads += uncached_.get();
    return stats;
  }

  std::uint64_t evict(std::uint64_t bytes) override { return keeper_.evict(bytes); }
  [[nodiscard]] bool has(const Digest& pack, std::uint64_t offset, std::uint64_t length) override {
    const std::shared_ptr<CacheDir> dir = keeper_.dir();
    if (!dir || !is_possible(offset, length)) return false;
    const std::uint64_t end = blocks_of(offset + length);
    for (std::uint64_t block = offset / kBlockBytes; block < end; ++block) {
      if (dir->missing_run(pack, block, 1) != 0) return false;
    }
    return true;
  }

  void drop(const Digest& pack, std::uint64_t offset, std::uint64_t length) override {
    const std::shared_ptr<CacheDir> dir = keeper_.dir();
    if (!dir || !is_possible(offset, length)) return;
    const std::uint64_t first = offset / kBlockBytes;
    dir->drop(pack, first, blocks_of(offset + length) - first);
  }

  void settle() override { keeper_.settle(); }

 private:
  static bool is_possible(std::uint64_t offset, std::uint64_t length) {
    return length <= kMaxPackBytes && offset <= kMaxPackBytes - length;
  }

  struct Flights {
    std::vector<std::shared_ptr<Flight>> list;  // as many as there are readers and writes that wait
    ReadAhead read_ahead;
  };

  Result<PackBytes> read_around(const PackRequest& request, Deadline deadline) {
    uncached_.add();
    StoreQueue::Ticket ticket{request.urgency};
    return read_store(request, ticket, deadline);
  }

  Result<PackBytes> read_store(const PackRequest& request, StoreQueue::Ticket& ticket, Deadline deadline) {
    const StageScope stage(Stage::store);
    const StoreQueue::Turn turn = TRY(queue_.enter(ticket, deadline));
    PackBytes bytes = TRY(inner_->read(request, deadline));
    store_reads_.add();
    store_bytes_.add(bytes.store_bytes);
    return bytes;
  }

  void forget(CacheDir* dir, const PackRequest& request) {
    const std::uint64_t first = request.offset / kBlockBytes;
    const std::uint64_t end = blocks_of(request.offset + request.length);
    dropped_.add();
    auto flights = flights_.lock();
    for (const auto& flight : flights->list) {
      if (flight->pack == request.pack && flight->first < end && first < flight->first + flight->count) {
        flight->is_unwanted = true;
      }
    }
    if (dir != nullptr) dir->drop(request.pack, first, end - first);
  }

  // Puts the range together from what is cached, what others fetch now, and fetches of its own.
  Result<PackBytes> read_through(CacheDir& dir, const PackRequest& request, Deadline deadline) {
    const std::uint64_t end = request.offset + request.length;
    PackBytes given{nullptr, 0, request.length, Origin::cache, 0};
    Bytes assembled;
    for (std::uint64_t at = request.offset; at < end;) {
      const Piece piece = TRY(next_piece(dir, request, at / kBlockBytes, blocks_of(end), deadline));
      if (piece.origin == Origin::store) given.origin = Origin::store;
      given.store_bytes += piece.store_bytes;
      const std::uint64_t piece_end = std::min(end, piece.position + piece.bytes.size());
      if (piece_end <= at) return past_end(request);
      if (at == request.offset && piece_end == end) {
        given.buffer = piece.buffer;
        given.offset = static_cast<std::size_t>(piece.bytes.data() - piece.buffer->data()) + (at - piece.position);
        break;
      }
      if (assembled.empty()) assembled.reserve(request.length);
      const ByteView part = piece.bytes.subspan(at - piece.position, piece_end - at);
      assembled.insert(assembled.end(), part.begin(), part.end());
      at = piece_end;
    }
    if (!given.buffer) given.buffer = std::make_shared<const Bytes>(std::move(assembled));
    (given.origin == Origin::cache ? hits_ : misses_).add();
    return given;
  }

  static tl::unexpected<Error> past_end(const PackRequest& request) {
    return fail(ErrorCode::corrupt, "pack {} ends early: {} bytes wanted at {}", request.pack.hex(), request.length,
                request.offset);
  }

  // Blocks from `at` on, at least one; more than [at, end) only when a fetch brings more.
  Result<Piece> next_piece(CacheDir& dir, const PackRequest& request, std::uint64_t at, std::uint64_t end,
                           Deadline deadline) {
    while (true) {
      if (auto cached = TRY(cached_piece(dir, request.pack, at, end, deadline))) return *std::move(cached);
      const std::uint64_t pack_bytes = TRY(inner_->size_of(request.pack, deadline));
      if (request.offset + request.length > pack_bytes) return past_end(request);
      auto flights = flights_.lock();
      const auto found = std::find_if(flights->list.begin(), flights->list.end(),
                                      [&](const auto& flight) { return flight->has(request.pack, at); });
      if (found != flights->list.end()) {
        const std::shared_ptr<Flight> flight = *found;
        flights.unlock();
        if (auto piece = TRY(join(*flight, request.urgency, at, deadline))) return *std::move(piece);
        continue;
      }
      const std::uint64_t wanted = dir.missing_run(request.pack, at, std::min(end - at, kMaxFetchBlocks));
      if (wanted == 0) continue;  // it has come meanwhile
      const auto flight = begin(*flights, dir, request, at, wanted, blocks_of(pack_bytes));
      flights.unlock();
      return lead(flight, std::min(wanted, flight->count), pack_bytes, deadline);
    }
  }

  // Nothing when block `at` has to be fetched.
  Result<std::optional<Piece>> cached_piece(CacheDir& dir, const Digest& pack, std::uint64_t at, std::uint64_t end,
                                            Deadline deadline) {
    const StageScope stage(Stage::disk);
    auto bytes = dir.read(pack, at, end - at, deadline);
    if (bytes) {
      disk_bytes_.add(bytes->size());
      auto buffer = std::make_shared<const Bytes>(std::move(*bytes));
      const ByteView view = *buffer;
      return Piece{std::move(buffer), view, at * kBlockBytes, Origin::cache, 0};
    }
    if (bytes.error().code == ErrorCode::timeout) return tl::unexpected(std::move(bytes).error());
    if (bytes.error().code != ErrorCode::not_found) {
      dropped_.add();
      tell_dropped(pack, bytes.error());
    }
    return std::nullopt;
  }

  // Not for each of the thousands of windows of a disk that fails.
  void tell_dropped(const Digest& pack, const Error& error) {
    {
      auto next = next_telling_.lock();
      if (!has_passed(*next)) return;
      *next = std::chrono::steady_clock::now() + kTellingPause;
    }
    log(LogLevel::warn, "cached_window_dropped", {{"pack", pack.hex()}, {"reason", error.message}});
  }

  // Waits for a fetch of somebody else. Nothing when block `at` is to be looked for again.
  Result<std::optional<Piece>> join(Flight& flight, Urgency urgency, std::uint64_t at, Deadline deadline) {
    const StageScope stage(Stage::merge);
    if (urgency == Urgency::demand) queue_.promote(flight.ticket);
    auto flights = flights_.lock();
    if (!flights.wait_until(deadline, [&] { return flight.outcome.has_value(); })) {
      return fail(ErrorCode::timeout, "block {} of pack {} did not arrive in time", at, flight.pack.hex());
    }
    if (!*flight.outcome) {
      const Error& error = flight.outcome->error();
      if (error.code == ErrorCode::timeout && !has_passed(deadline)) return std::nullopt;  // it had less time
      return tl::unexpected(error);
    }
    if (!flight.has(flight.pack, at)) return std::nullopt;
    merged_.add();
    return piece_of(flight, 0);
  }

  static Piece piece_of(const Flight& flight, std::uint64_t store_bytes) {
    const PackBytes& bytes = **flight.outcome;
    return {bytes.buffer, bytes.view(), flight.first * kBlockBytes, Origin::store, store_bytes};
  }

  // Blocks that are missing and that nobody fetches, at least `wanted` of them if no other fetch stands between.
  std::shared_ptr<Flight> begin(Flights& flights, CacheDir& dir, const PackRequest& request, std::uint64_t at,
                                std::uint64_t wanted, std::uint64_t pack_blocks) {
    // What is fetched ahead was planned: nothing beside it is wanted, and it says nothing of where readers go.
    const bool is_demand = request.urgency == Urgency::demand;
    std::uint64_t count = is_demand ? flights.read_ahead.plan(request.pack, at, wanted) : wanted;
    count = std::min({count, kMaxFetchBlocks, pack_blocks - at});
    if (count > wanted) count = dir.missing_run(request.pack, at, count);
    for (const auto& other : flights.list) {
      if (other->pack == request.pack && other->first > at) count = std::min(count, other->first - at);
    }
    auto flight = std::make_shared<Flight>();
    flight->pack = request.pack;
    flight->first = at;
    flight->count = count;
    flight->ticket.urgency = request.urgency;
    flights.list.push_back(flight);
    return flight;
  }

  Result<Piece> lead(const std::shared_ptr<Flight>& flight, std::uint64_t wanted, std::uint64_t pack_bytes,
                     Deadline deadline) {
    auto outcome = fetch(*flight, flight->count, pack_bytes, deadline);
    const bool worth_less = !outcome && wanted < flight->count && outcome.error().code != ErrorCode::timeout;
    if (worth_less) {  // what was not asked for may be what fails
      shrink(*flight, wanted);
      outcome = fetch(*flight, wanted, pack_bytes, deadline);
    }
    {
      auto flights = flights_.lock();
      flight->outcome = outcome;
    }
    flights_.notify_all();
    if (!outcome) {
      end(flight);
      return tl::unexpected(std::move(outcome).error());
    }
    const Piece piece = piece_of(*flight, outcome->store_bytes);
    CacheKeeper::Item item{flight->pack,
                           pack_bytes,
                           flight->first,
                           outcome->buffer,
                           outcome->view(),
                           std::shared_ptr<const std::atomic<bool>>(flight, &flight->is_unwanted),
                           [this, flight] { end(flight); }};
    if (!keeper_.offer(std::move(item), std::min(deadline, std::chrono::steady_clock::now() + kOfferPatience))) {
      uncached_.add();
      end(flight);
    }
    return piece;
  }

  void shrink(Flight& flight, std::uint64_t count) {
    auto flights = flights_.lock();
    flight.count = count;
  }

  Result<PackBytes> fetch(Flight& flight, std::uint64_t count, std::uint64_t pack_bytes, Deadline deadline) {
    const std::uint64_t offset = flight.first * kBlockBytes;
    const std::size_t length = std::min(count * kBlockBytes, pack_bytes - offset);
    return read_store({flight.pack, offset, length}, flight.ticket, deadline);
  }

  void end(const std::shared_ptr<Flight>& flight) {
    auto flights = flights_.lock();
    std::erase(flights->list, flight);
  }

  const std::shared_ptr<PackReader> inner_;
  StoreQueue queue_;
  Guarded<Flights> flights_;
  Guarded<Deadline> next_telling_;
  Counter hits_;
  Counter misses_;
  Counter disk_bytes_;
  Counter store_bytes_;
  Counter store_reads_;
  Counter merged_;
  Counter dropped_;
  Counter uncached_;
  mutable CacheKeeper keeper_;  // last: its thread calls end()
};

}  // namespace

std::shared_ptr<NodeCache> NodeCache::create(std::shared_ptr<PackReader> inner, std::shared_ptr<io::ReadEngine> disk,
                                             const NodeCacheOptions& options) {
  return std::make_shared<NodeCacheImpl>(std::move(inner), std::move(disk), options);
}

}  // namespace dsec::store
