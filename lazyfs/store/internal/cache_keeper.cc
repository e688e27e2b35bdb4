// SPDX-License-Identifier: Apache-2.0
#include "store/internal/cache_keeper.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/text.h"

namespace dsec::store {

namespace {

using std::chrono::steady_clock;

constexpr std::uint64_t kMaxDefaultQuota = std::uint64_t{100} << 30;
constexpr std::chrono::milliseconds kTick{1000};
constexpr std::chrono::milliseconds kFirstPause{1000};
constexpr std::chrono::milliseconds kLongestPause{30000};
// Kept free of the windows that may be, since a write of kMaxFetchBytes needs some.
constexpr std::size_t kSpareWindows = 8;

// Above the high watermark the cache is evicted to the low one.
std::uint64_t high_watermark(std::uint64_t limit) { return limit - limit / 32; }
std::uint64_t low_watermark(std::uint64_t limit) { return limit - limit / 10; }

Result<struct statvfs> space_of(const Fd& fd) {
  struct statvfs space {};
  if (::fstatvfs(fd.get(), &space) != 0) return fail_sys(errno, "look at the space for the node cache");
  return space;
}

std::uint64_t default_quota(const Fd& fd) {
  const auto space = space_of(fd);
  return space ? std::min<std::uint64_t>(space->f_blocks * space->f_frsize / 10, kMaxDefaultQuota) : 0;
}

}  // namespace

CacheKeeper::CacheKeeper(NodeCacheOptions options, std::shared_ptr<io::ReadEngine> engine)
    : options_(std::move(options)), engine_(std::move(engine)) {
  reopen();
  thread_ = std::thread([this] { run(); });
}

CacheKeeper::~CacheKeeper() {
  state_.lock()->is_stopping = true;
  state_.notify_all();
  thread_.join();
}

std::shared_ptr<CacheDir> CacheKeeper::dir() { return state_.lock()->dir; }

bool CacheKeeper::offer(Item item, Deadline deadline) {
  auto state = state_.lock();
  const auto has_room = [&] {
    return !state->accepts || state->queue.empty() || state->queued_bytes < options_.max_pending_bytes;
  };
  if (!state.wait_until(deadline, has_room) || !state->accepts) return false;
  state->queued_bytes += item.bytes.size();
  state->queue.push_back(std::move(item));
  state_.notify_all();
  return true;
}

void CacheKeeper::settle() {
  auto state = state_.lock();
  state.wait([&] { return state->queued_bytes == 0; });
}

std::uint64_t CacheKeeper::evict(std::uint64_t bytes) {
  const auto now = dir();
  if (!now) return 0;
  const Evicted evicted = now->evict(bytes);
  evicted_bytes_.add(evicted.bytes);
  return evicted.bytes;
}

void CacheKeeper::describe(NodeCacheStats& stats) {
  stats.evicted_bytes = evicted_bytes_.get();
  stats.write_failures = write_failures_.get();
  stats.uncached_reads = left_out_.get();
  stats.quota_bytes = quota_;
  auto state = state_.lock();
  stats.trouble = state->trouble;
  const auto now = state->dir;
  state.unlock();
  if (!now) return;
  const CacheUse use = now->use();
  stats.used_bytes = use.used_bytes;
  stats.windows = use.windows;
}

void CacheKeeper::run() {
  if (const auto now = dir()) [[maybe_unused]]
    const auto ignored = now->trim();  // tried again at the next start
  while (true) {
    auto state = state_.lock();
    state.wait_until(steady_clock::now() + kTick, [&] { return !state->queue.empty() || state->is_stopping; });
    if (state->queue.empty()) {
      if (state->is_stopping) return;
      state.unlock();
      tick();
      continue;
    }
    const Item item = std::move(state->queue.front());
    state->queue.pop_front();
    state.unlock();
    publish(item);
    item.at_end();
    state_.lock()->queued_bytes -= item.bytes.size();
    state_.notify_all();
  }
}

void CacheKeeper::tick() {
  auto now = dir();
  if (now && !now->is_intact()) now = reopen();
  if (!now && has_passed(retry_at_)) now = reopen();
  if (!now) return;
  if (has_passed(retry_at_)) state_.lock()->accepts = true;  // the next write will tell
  limit_bytes_ = std::min<std::uint64_t>(quota_, limit_bytes_ + limit_bytes_ / 256 + 1);
  // Whatever fails here fails the next write too, which says so.
  [[maybe_unused]] const auto wiped = now->wipe_dead();
  [[maybe_unused]] const auto has_room = make_room(*now, 0);
  [[maybe_unused]] const auto saved = now->save_uses();
}

void CacheKeeper::publish(const Item& item) {
  if (*item.is_unwanted) return;
  auto now = dir();
  if (now && !now->is_intact()) now = reopen();
  if (!now) return;
  if (auto written = write(*now, item); !written) {
    failed(written.error());
  } else {
    succeeded();
  }
}

Result<void> CacheKeeper::write(CacheDir& dir, const Item& item) {
  TRY(dir.wipe_dead());
  if (!TRY(make_room(dir, item.bytes.size()))) {
    left_out_.add();
    return {};
  }
  return dir.write(item.pack, item.pack_bytes, item.first, item.bytes);
}

// Evicts until `bytes` more fit the quota and leave the reserve free.
Result<bool> CacheKeeper::make_room(CacheDir& dir, std::uint64_t bytes) {
  const std::uint64_t wanted = dir.use().used_bytes + bytes + kWindowBytes / 2;  // some blocks are counted short
  if (wanted > high_watermark(limit_bytes_)) {
    evict(wanted - std::min(wanted, low_watermark(limit_bytes_)));
    if (dir.use().used_bytes + bytes > limit_bytes_) return false;
  }
  if (dir.use().windows + kSpareWindows > options_.max_windows) evict(dir.use().used_bytes / 16);
  const auto free_bytes = [&]() -> Result<std::uint64_t> {
    const struct statvfs space = TRY(space_of(dir.data()));
    return std::uint64_t{space.f_bavail} * space.f_frsize;
  };
  const std::uint64_t free_before = TRY(free_bytes());
  if (free_before >= options_.reserve_bytes + bytes) return true;
  evict(options_.reserve_bytes + bytes - free_before);
  if (bytes > 0 && TRY(free_bytes()) < options_.reserve_bytes + bytes) {
    const std::string but = options_.reserve_bytes > 0
                                ? fmt::format(" but for the {} left to others", human_size(options_.reserve_bytes))
                                : "";
    return fail(ErrorCode::no_space, "its file system is full{}", but);
  }
  return true;
}

std::shared_ptr<CacheDir> CacheKeeper::reopen() {
  {
    auto state = state_.lock();
    const bool was_there = state->dir != nullptr;
    state->dir = nullptr;  // its readers keep it until they are done
    state->accepts = false;
    state.unlock();
    if (was_there) failed({ErrorCode::io, "its files were deleted", 0});
  }
  auto opened = CacheDir::open(options_.dir, engine_, options_.max_windows);
  if (!opened) {
    failed(opened.error());
    return nullptr;
  }
  std::shared_ptr<CacheDir> made = std::move(*opened);
  quota_ = options_.quota_bytes > 0 ? options_.quota_bytes : default_quota(made->data());
  limit_bytes_ = quota_;
  auto state = state_.lock();
  state->dir = made;
  state->accepts = true;
  state.unlock();
  // An owner that was killed may have written more than it had counted.
  [[maybe_unused]] const auto has_room = make_room(*made, 0);
  return made;
}

void CacheKeeper::failed(const Error& error) {
  write_failures_.add();
  pause_ = pause_.count() == 0 ? kFirstPause : std::min(2 * pause_, kLongestPause);
  retry_at_ = steady_clock::now() + pause_;
  bool is_new = false;
  {
    auto state = state_.lock();
    is_new = state->trouble.empty();
    state->trouble = error.message;
    state->accepts = false;
  }
  state_.notify_all();
  if (is_new) {
    log(LogLevel::warn, "node_cache_off", {{"dir", options_.dir.native()}, {"reason", error.message}});
  }
  const auto now = dir();
  if (error.code != ErrorCode::no_space || !now) return;
  // Somebody else has the space: get along with less, and try for more in small steps.
  const std::uint64_t used = now->use().used_bytes;
  limit_bytes_ = std::clamp<std::uint64_t>(used - used / 8, std::min<std::uint64_t>(quota_, 4 * kWindowBytes), quota_);
  evict(used / 8);
}

void CacheKeeper::succeeded() {
  pause_ = {};
  bool was_in_trouble = false;
  {
    auto state = state_.lock();
    was_in_trouble = !state->trouble.empty();
    state->trouble.clear();
  }
  if (was_in_trouble) log(LogLevel::info, "node_cache_back", {{"dir", options_.dir.native()}});
}

}  // namespace dsec::store
