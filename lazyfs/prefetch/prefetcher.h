// SPDX-License-Identifier: Apache-2.0
// Fetches plans in the background.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "prefetch/pacer.h"
#include "prefetch/plan.h"
#include "store/pack_reader.h"

namespace dsec::prefetch {

struct PrefetchOptions {
  unsigned threads = 2;                // reads at a time, at most kMaxThreads
  std::uint64_t bytes_per_second = 0;  // 0: no bound
  std::chrono::milliseconds read_deadline{60000};
};

struct Progress {
  enum class State : std::uint8_t { waiting, running, done, failed, stopped } state = State::waiting;
  std::uint64_t bytes_planned = 0;
  std::uint64_t bytes_done = 0;     // read or found on this node
  std::uint64_t bytes_fetched = 0;  // of these: from the store
  std::string reason;               // why it failed, or why the last read that failed did
  [[nodiscard]] bool is_over() const { return state != State::waiting && state != State::running; }
};

std::string_view to_string(Progress::State state);

// Reads the ranges of plans through `packs` with Urgency::prefetch, so that they are on this node afterwards. Jobs have
// names; they share the threads and the bandwidth, the oldest first, those that somebody runs into before those that
// take everything. What came from the store pays for bandwidth, what was here does not. A read that fails is no failure
// of the job unless kMaxFailures fail one after the other: prefetching is advice. Thread-safe. The destructor stops all
// jobs and waits for reads under way.
class Prefetcher {
 public:
  static constexpr unsigned kMaxThreads = 64;
  static constexpr unsigned kMaxFailures = 8;
  static constexpr std::size_t kMaxFinished = 256;  // jobs that ended are remembered, the newest

  Prefetcher(std::shared_ptr<store::PackReader> packs, const PrefetchOptions& options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  enum class Order : std::uint8_t { first, last };
  // Starts a job; one of that name that has not ended is left as it is, and the answer is no.
  enum class Started : std::uint8_t { no, yes };
  Started start(const std::string& name, Plan plan, Order order = Order::first);
  // Ends a job after the reads under way. No effect when there is none.
  void stop(const std::string& name);
  // Begins no more reads, for ever; whether those under way ended by `deadline`.
  bool stop_all(Deadline deadline);
  // Nothing when there was no job of that name, or too long ago.
  [[nodiscard]] std::optional<Progress> progress(const std::string& name) const;
  // Jobs that have not ended.
  [[nodiscard]] std::size_t running() const;
  // Over all jobs ever.
  [[nodiscard]] std::uint64_t bytes_fetched() const;

 private:
  struct Job;
  using JobPtr = std::shared_ptr<Job>;
  void work();
  JobPtr next_range(std::unique_lock<std::mutex>& lock, PackRange& range);
  void finish_range(Job& job, const PackRange& range, const Result<store::PackBytes>& outcome);
  void end_if_over(Job& job);

  std::shared_ptr<store::PackReader> packs_;
  PrefetchOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  std::condition_variable rested_;  // no read is under way
  bool stopping_ = false;           // guarded by mutex_, like all below
  Pacer pacer_;
  unsigned under_way_ = 0;              // reads
  std::deque<JobPtr> running_;          // oldest first
  std::map<std::string, JobPtr> jobs_;  // by name, also ended ones
  std::deque<std::string> ended_;       // names, oldest first
  std::uint64_t bytes_fetched_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace dsec::prefetch
