// SPDX-License-Identifier: Apache-2.0
#include "prefetch/prefetcher.h"

#include <algorithm>

#include "base/log.h"

namespace dsec::prefetch {

struct Prefetcher::Job {
  std::string name;
  Order order = Order::first;
  Plan plan;
  std::size_t next = 0;    // range to begin
  unsigned under_way = 0;  // ranges that are being read
  unsigned failures = 0;   // one after the other
  Progress progress;
};

std::string_view to_string(Progress::State state) {
  switch (state) {
    case Progress::State::waiting: return "waiting";
    case Progress::State::running: return "running";
    case Progress::State::done: return "done";
    case Progress::State::failed: return "failed";
    case Progress::State::stopped: return "stopped";
  }
  return "?";
}

Prefetcher::Prefetcher(std::shared_ptr<store::PackReader> packs, const PrefetchOptions& options)
    : packs_(std::move(packs)), options_(options), pacer_(options.bytes_per_second) {
  for (unsigned i = 0; i < std::min(options_.threads, kMaxThreads); ++i) threads_.emplace_back([this] { work(); });
}

bool Prefetcher::stop_all(Deadline deadline) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wanted_.notify_all();
  return rested_.wait_until(lock, deadline, [this] { return under_way_ == 0; });
}

Prefetcher::~Prefetcher() {
  stop_all(std::chrono::steady_clock::now());
  for (std::thread& thread : threads_) thread.join();
}

Prefetcher::Started Prefetcher::start(const std::string& name, Plan plan, Order order) {
  const std::lock_guard lock(mutex_);
  JobPtr& job = jobs_[name];
  if (job && !job->progress.is_over()) return Started::no;
  if (job) ended_.erase(std::remove(ended_.begin(), ended_.end(), name), ended_.end());
  job = std::make_shared<Job>();
  job->name = name;
  job->order = order;
  job->plan = std::move(plan);
  job->progress.bytes_planned = job->plan.bytes;
  const auto place = std::find_if(running_.begin(), running_.end(),
                                  [&](const JobPtr& other) { return order == Order::first && other->order != order; });
  running_.insert(place, job);
  end_if_over(*JobPtr(job));
  wanted_.notify_all();
  return Started::yes;
}

void Prefetcher::stop(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  if (job.progress.is_over()) return;
  job.progress.state = Progress::State::stopped;
  job.next = job.plan.ranges.size();
  end_if_over(job);
}

std::optional<Progress> Prefetcher::progress(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return std::nullopt;
  return found->second->progress;
}

std::size_t Prefetcher::running() const {
  const std::lock_guard lock(mutex_);
  return running_.size();
}

std::uint64_t Prefetcher::bytes_fetched() const {
  const std::lock_guard lock(mutex_);
  return bytes_fetched_;
}

// Waits for a range of the oldest job that has one left, and for the bandwidth; null when it is over.
Prefetcher::JobPtr Prefetcher::next_range(std::unique_lock<std::mutex>& lock, PackRange& range) {
  while (!stopping_) {
    const auto job = std::find_if(running_.begin(), running_.end(),
                                  [](const JobPtr& one) { return one->next < one->plan.ranges.size(); });
    if (job == running_.end()) {
      wanted_.wait(lock);
      continue;
    }
    const auto now = Pacer::Clock::now();
    if (pacer_.free_at() > now) {
      wanted_.wait_until(lock, pacer_.free_at());
      continue;
    }
    range = (*job)->plan.ranges[(*job)->next++];
    pacer_.charge(range.length, now);
    ++(*job)->under_way;
    ++under_way_;
    (*job)->progress.state = Progress::State::running;
    return *job;
  }
  return nullptr;
}

void Prefetcher::work() {
  std::unique_lock lock(mutex_);
  PackRange range;
  while (const JobPtr job = next_range(lock, range)) {
    lock.unlock();
    const Deadline deadline = std::chrono::steady_clock::now() + options_.read_deadline;
    const auto outcome = packs_->read({range.pack, range.offset, range.length, store::Urgency::prefetch}, deadline);
    lock.lock();
    finish_range(*job, range, outcome);
  }
}

void Prefetcher::finish_range(Job& job, const PackRange& range, const Result<store::PackBytes>& outcome) {
  --job.under_way;
  if (--under_way_ == 0) rested_.notify_all();
  if (outcome) {
    job.failures = 0;
    job.progress.bytes_done += range.length;
    job.progress.bytes_fetched += outcome->store_bytes;
    bytes_fetched_ += outcome->store_bytes;
    if (outcome->store_bytes < range.length) {
      pacer_.refund(range.length - outcome->store_bytes);
      wanted_.notify_all();
    }
    return end_if_over(job);
  }
  job.progress.reason = outcome.error().message;
  if (++job.failures == kMaxFailures && job.progress.state == Progress::State::running) {
    job.progress.state = Progress::State::failed;
    job.next = job.plan.ranges.size();
    log(LogLevel::warn, "prefetch_failed", {{"job", job.name}, {"reason", job.progress.reason}});
  }
  end_if_over(job);
}

// Takes a job with nothing left to do out of those that run.
void Prefetcher::end_if_over(Job& job) {
  if (job.next < job.plan.ranges.size() || job.under_way > 0) return;
  const auto place =
      std::find_if(running_.begin(), running_.end(), [&](const JobPtr& other) { return other.get() == &job; });
  if (place == running_.end()) return;
  if (!job.progress.is_over()) job.progress.state = Progress::State::done;
  job.plan = {};
  job.next = 0;
  ended_.push_back(job.name);
  running_.erase(place);
  if (ended_.size() > kMaxFinished) {
    jobs_.erase(ended_.front());
    ended_.pop_front();
  }
}

}  // namespace dsec::prefetch
