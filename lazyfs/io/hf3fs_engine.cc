// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "io/hf3fs.h"
#include "io/hf3fs_mount.h"
#include "io/internal/hf3fs_shard.h"
#include "io/internal/range.h"

namespace dsec::io {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMaxSlotBytes = 64 << 20;
constexpr std::size_t kMaxParts = 8;  // of one read, in flight at once
constexpr unsigned kMaxRounds = 16;   // requests that one part may take when each brings less than was asked for
constexpr milliseconds kLogEvery{10000};

Result<void> check_options(const Hf3fsOptions& options) {
  const auto within = [](auto value, auto low, auto high) { return value >= low && value <= high; };
  if (!within(options.rings, 1u, 64u)) return fail(ErrorCode::invalid, "1 to 64 rings, not {}", options.rings);
  if (!within(options.slots, 1u, 1024u)) return fail(ErrorCode::invalid, "1 to 1024 slots, not {}", options.slots);
  if (!within(options.slot_bytes, kPage, kMaxSlotBytes) || options.slot_bytes % kPage != 0) {
    return fail(ErrorCode::invalid, "slots of {} bytes: a multiple of {} up to {} is wanted", options.slot_bytes, kPage,
                kMaxSlotBytes);
  }
  if (!within(options.io_depth, -1024, 0)) return fail(ErrorCode::invalid, "an I/O depth of {}", options.io_depth);
  if (!within(options.batch_wait, milliseconds(0), milliseconds(1000)) ||
      !within(options.ring_timeout, milliseconds(1), milliseconds(300000)) ||
      !within(options.first_retry, milliseconds(1), options.last_retry)) {
    return fail(ErrorCode::invalid, "a time of the 3FS rings is out of its limits");
  }
  if (options.max_failures == 0 || options.max_files == 0) {
    return fail(ErrorCode::invalid, "a 3FS engine needs room for one failure and one file");
  }
  if (options.mount_point.empty() || options.mount_point.size() >= sizeof(Hf3fsIov::mount_point)) {
    return fail(ErrorCode::invalid, "a 3FS mount point of {} bytes", options.mount_point.size());
  }
  return {};
}

// May be said at most once in a while.
class Seldom {
 public:
  bool now() {
    const std::int64_t time = Clock::now().time_since_epoch().count();
    std::int64_t next = next_.load(std::memory_order_relaxed);
    return time >= next && next_.compare_exchange_strong(next, time + Clock::duration(kLogEvery).count());
  }

 private:
  std::atomic<std::int64_t> next_{0};
};

class Hf3fsEngine final : public ReadEngine {
 public:
  Hf3fsEngine(const std::shared_ptr<const Hf3fsApi>& api, Hf3fsOptions options, std::shared_ptr<ReadEngine> fallback)
      : options_(std::move(options)), fallback_(std::move(fallback)), files_(api, options_.max_files) {
    for (unsigned i = 0; i < options_.rings; ++i) shards_.push_back(std::make_unique<Hf3fsShard>(api, options_));
  }

  Result<Bytes> read(const std::shared_ptr<const Fd>& fd, std::uint64_t offset, std::size_t length,
                     Deadline deadline) override {
    TRY(check_request(offset, length, deadline));
    if (length == 0) return Bytes{};
    auto out = std::make_shared<Bytes>(length);
    const auto done = through_rings(fd, offset, out, deadline);
    if (done) {
      options_.counters->reads.add();
      options_.counters->bytes.add(length);
      return std::move(*out);  // every request has ended: nobody else writes to it
    }
    if (done.error().code == ErrorCode::corrupt) return tl::unexpected(done.error());
    if (has_passed(deadline)) return fail(ErrorCode::timeout, "{}", done.error().message);
    options_.counters->fallbacks.add();
    if (seldom_.now()) {
      log(LogLevel::warn, "hf3fs_fallback",
          {{"why", done.error().message}, {"so_far", std::to_string(options_.counters->fallbacks.get())}});
    }
    return fallback_->read(fd, offset, length, deadline);
  }

 private:
  // One part of a read: where it is in the file, where it goes, and the request for it.
  struct Part {
    Hf3fsShard* shard;
    std::shared_ptr<Hf3fsRing> ring;
    std::uint64_t offset;
    Hf3fsRing::Target target;
    Hf3fsRing::Read read;
  };
  using File = std::shared_ptr<const Hf3fsFile>;

  Result<void> through_rings(const std::shared_ptr<const Fd>& fd, std::uint64_t offset,
                             const std::shared_ptr<Bytes>& out, Deadline deadline) {
    const auto file = files_.get(fd);
    if (!file) {
      options_.counters->failures.add();
      return tl::unexpected(file.error());
    }
    for (std::size_t at = 0; at < out->size();) {
      std::vector<Part> parts;
      for (; at < out->size() && parts.size() < kMaxParts; at += parts.back().target.length) {
        const std::size_t length = std::min(out->size() - at, options_.slot_bytes);
        parts.push_back(TRY(start(*file, offset + at, {out, at, length}, deadline)));
      }
      for (Part& part : parts) {
        auto ended = finish(*file, part, deadline);
        // The file system's client may have forgotten the file, or have been restarted since.
        if (!ended && ended.error().sys == EBADF) files_.forget(fd);
        TRY(std::move(ended));
      }
    }
    return {};
  }

  Result<Part> start(const File& file, std::uint64_t offset, Hf3fsRing::Target target, Deadline deadline) {
    Hf3fsShard& shard = shard_of(*file, offset);
    auto ring = TRY(shard.ring(limit(deadline)));
    Hf3fsRing::Read read = ring->start(file, offset, target);
    return Part{&shard, std::move(ring), offset, std::move(target), std::move(read)};
  }

  // A request may bring less than was asked for without being at the end: the rest is asked for until nothing comes.
  Result<void> finish(const File& file, Part& part, Deadline deadline) {
    const std::size_t length = part.target.length;
    std::size_t done = TRY(wait(part, part.read, deadline));
    for (unsigned round = 1; done < length; ++round) {
      if (round == kMaxRounds) return fail(ErrorCode::unavailable, "a 3FS ring reads too little at a time");
      Hf3fsRing::Read rest =
          part.ring->start(file, part.offset + done, {part.target.buffer, part.target.at + done, length - done});
      const std::size_t count = TRY(wait(part, rest, deadline));
      if (count == 0) return ends_early(part.offset, length, done);
      done += count;
    }
    return {};
  }

  Result<std::size_t> wait(const Part& part, Hf3fsRing::Read& read, Deadline deadline) {
    auto count = read.wait(limit(deadline));
    const bool answered = count || count.error().code == ErrorCode::corrupt;
    if (!answered && count.error().code == ErrorCode::timeout) options_.counters->abandoned.add();
    part.shard->note(part.ring, answered ? Hf3fsShard::Outcome::answered : Hf3fsShard::Outcome::failed);
    return count;
  }

  [[nodiscard]] Deadline limit(Deadline deadline) const {
    return std::min(deadline, Clock::now() + options_.ring_timeout);
  }

  // Neighbouring parts of a file go to different rings.
  Hf3fsShard& shard_of(const Hf3fsFile& file, std::uint64_t offset) {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // spreads the bits (Fibonacci hashing)
    const std::uint64_t mixed = (file.number() * kOdd + offset / options_.slot_bytes) * kOdd;
    return *shards_[(mixed >> 32) % shards_.size()];
  }

  Hf3fsOptions options_;
  std::shared_ptr<ReadEngine> fallback_;
  Hf3fsFiles files_;
  std::vector<std::unique_ptr<Hf3fsShard>> shards_;
  Seldom seldom_;
};

}  // namespace

Result<std::unique_ptr<ReadEngine>> make_hf3fs_engine(const std::shared_ptr<const Hf3fsApi>& api, Hf3fsOptions options,
                                                      std::shared_ptr<ReadEngine> fallback) {
  TRY(check_options(options));
  if (!options.counters) options.counters = std::make_shared<Hf3fsCounters>();
  return std::make_unique<Hf3fsEngine>(api, std::move(options), std::move(fallback));
}

}  // namespace dsec::io
