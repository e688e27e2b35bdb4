// SPDX-License-Identifier: Apache-2.0
// Keeps the cache directory writable, within its quota, and written to.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/guarded.h"
#include "base/metrics.h"
#include "store/internal/cache_dir.h"
#include "store/node_cache.h"

namespace dsec::store {

// One thread writes what was fetched, evicts, and tries again what failed. Thread-safe.
class CacheKeeper {
 public:
  // Opens the directory; when that fails, tries again later.
  CacheKeeper(NodeCacheOptions options, std::shared_ptr<io::ReadEngine> engine);
  // Writes out what is queued.
  ~CacheKeeper();
  CacheKeeper(const CacheKeeper&) = delete;
  CacheKeeper& operator=(const CacheKeeper&) = delete;

  // Null while there is none that works.
  [[nodiscard]] std::shared_ptr<CacheDir> dir();

  struct Item {
    Digest pack;
    std::uint64_t pack_bytes = 0;
    std::uint64_t first = 0;  // block
    std::shared_ptr<const Bytes> buffer;
    ByteView bytes;  // in it
    std::shared_ptr<const std::atomic<bool>> is_unwanted;
    std::function<void()> at_end;  // called by the writer, whether it was written or not
  };
  // False when nothing can be written now, or the queue stays full until the deadline; at_end is not called then.
  bool offer(Item item, Deadline deadline);

  std::uint64_t evict(std::uint64_t bytes);
  void settle();
  // Fills in what the keeper knows.
  void describe(NodeCacheStats& stats);

 private:
  struct State {
    std::shared_ptr<CacheDir> dir;
    bool accepts = false;  // writes are tried
    std::string trouble;
    std::deque<Item> queue;
    std::uint64_t queued_bytes = 0;  // with what is being written
    bool is_stopping = false;
  };

  void run();
  void tick();
  void publish(const Item& item);
  Result<void> write(CacheDir& dir, const Item& item);
  // False when the quota has no room just now, because all is being read or wiped.
  Result<bool> make_room(CacheDir& dir, std::uint64_t bytes);
  std::shared_ptr<CacheDir> reopen();
  void failed(const Error& error);
  void succeeded();

  const NodeCacheOptions options_;
  const std::shared_ptr<io::ReadEngine> engine_;
  Guarded<State> state_;
  Counter evicted_bytes_;
  Counter left_out_;
  Counter write_failures_;
  std::atomic<std::uint64_t> quota_{0};
  // The writer's own.
  std::uint64_t limit_bytes_ = 0;  // the quota, or less where the disk did not have it
  Deadline retry_at_{};
  std::chrono::milliseconds pause_{0};
  std::thread thread_;
};

}  // namespace dsec::store
