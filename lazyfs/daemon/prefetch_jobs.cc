// SPDX-License-Identifier: Apache-2.0
#include "daemon/prefetch_jobs.h"

#include "base/log.h"
#include "prefetch/plan.h"

namespace dsec::daemon {

using prefetch::Plan;
using prefetch::Prefetcher;
using Readers = Attachments::Readers;

namespace {

constexpr std::size_t kMaxNamed = 100;  // of who records, in a status

}  // namespace

struct PrefetchJobs::Job {
  Digest env;
  bool all = false;
  [[nodiscard]] std::string name() const { return name_of(env, all ? "all" : "trace"); }
  static std::string name_of(const Digest& env, std::string_view what) { return fmt::format("{} {}", env.hex(), what); }
};

Result<Purpose> parse_purpose(std::string_view text) {
  if (text == "other") return Purpose::other;
  if (text == "look") return Purpose::look;
  if (text == "run") return Purpose::run;
  if (text == "record") return Purpose::record;
  return fail(ErrorCode::invalid, "\"{}\" is nothing to attach an environment for", text);
}

PrefetchJobs::PrefetchJobs(store::Store store, Attachments& attachments, const ChunkStack& chunks,
                           const Settings& settings)
    : store_(std::move(store)),
      attachments_(attachments),
      cache_(chunks.node_cache),
      no_cache_reason_(chunks.node_cache_reason),
      settings_(settings) {
  if (cache_) {
    prefetch::PrefetchOptions options;
    options.threads = static_cast<unsigned>(settings_.prefetch_threads);
    options.bytes_per_second = settings_.prefetch_bandwidth;
    options.read_deadline = settings_.read_deadline;
    prefetcher_ = std::make_unique<Prefetcher>(chunks.packs, options);
  }
  thread_ = std::thread([this] { work(); });
}

PrefetchJobs::~PrefetchJobs() {
  stop(std::chrono::milliseconds(0));
  thread_.join();
}

bool PrefetchJobs::stop(std::chrono::milliseconds patience) {
  const Deadline deadline = std::chrono::steady_clock::now() + patience;
  const bool rests = !prefetcher_ || prefetcher_->stop_all(deadline);
  std::unique_lock lock(mutex_);
  state_.stopping = true;
  changed_.notify_all();
  return changed_.wait_until(lock, deadline, [this] { return !state_.looking; }) && rests;
}

Result<void> PrefetchJobs::before_attach(const Digest& env, Purpose purpose, const std::string& owner) {
  if (purpose != Purpose::record) return {};
  const std::lock_guard lock(mutex_);
  for (const auto& [other, recording] : state_.recordings) {
    if (recording.env == env && recording.readers == Readers::of_record) {
      return fail(ErrorCode::exists, "environment {} is being recorded for {}", env.hex(), other);
    }
  }
  state_.recordings[owner] = {env, Readers::of_record, std::make_shared<prefetch::Recorder>()};
  return {};
}

void PrefetchJobs::after_attach(const Digest& env, Purpose purpose, const std::string& owner) {
  if (purpose == Purpose::other) return;
  if (purpose == Purpose::run) record_first_run(env, owner);
  std::shared_ptr<prefetch::Recorder> recorder;
  Readers readers{};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = state_.recordings.find(owner); found != state_.recordings.end()) {
      recorder = found->second.recorder;
      readers = found->second.readers;
      found->second.attached = true;
    }
  }
  if (recorder) attachments_.observe(env, readers, recorder);
  if (purpose == Purpose::record || !needs_look(env)) return;
  {
    const std::lock_guard lock(mutex_);
    state_.wanted.insert(env);
  }
  changed_.notify_all();
}

// Unless there is a trace, or somebody records one. Whether there is one may be found out only later.
void PrefetchJobs::record_first_run(const Digest& env, const std::string& owner) {
  if (settings_.record == AdviceChoice::off) return;
  const std::lock_guard lock(mutex_);
  if (state_.known.size() > kMaxKnown) state_.known.clear();
  if (state_.refused || state_.known[env].exists) return;
  for (const auto& [other, recording] : state_.recordings) {
    if (recording.env == env) return;
  }
  state_.recordings[owner] = {env, Readers::of_layers, std::make_shared<prefetch::Recorder>()};
}

// What was fetched once is still there unless the cache has lost something since.
bool PrefetchJobs::needs_look(const Digest& env) {
  const bool fetches = prefetcher_ && settings_.prefetch == AdviceChoice::automatic;
  const std::uint64_t now = losses();
  std::unique_lock lock(mutex_);
  const Known& known = state_.known[env];
  if (!known.exists || !fetches) return !known.exists;
  if (known.fetched_for != now) return true;
  lock.unlock();
  const auto progress = prefetcher_->progress(Job::name_of(env, "trace"));
  if (!progress || progress->state == prefetch::Progress::State::running) return !progress;
  return progress->bytes_done < progress->bytes_planned;
}

std::uint64_t PrefetchJobs::losses() const {
  if (!cache_) return 0;
  const store::NodeCacheStats stats = cache_->stats();
  return stats.evicted_bytes + stats.dropped_corrupt + stats.uncached_reads;
}

void PrefetchJobs::before_detach(const std::string& owner) {
  std::unique_lock lock(mutex_);
  const auto found = state_.recordings.find(owner);
  if (found == state_.recordings.end()) return;
  const Recording gone = found->second;
  state_.recordings.erase(found);
  lock.unlock();
  if (gone.attached) attachments_.unobserve(gone.env, gone.readers, gone.recorder);
}

void PrefetchJobs::after_detach(const std::vector<Digest>& unused) {
  if (!prefetcher_) return;
  for (const Digest& env : unused) {
    for (const std::string_view what : {"trace", "all"}) prefetcher_->stop(Job::name_of(env, what));
  }
}

bool PrefetchJobs::is_recorded(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  return state_.recordings.count(owner) > 0;
}

void PrefetchJobs::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return state_.stopping || !state_.wanted.empty(); });
    if (state_.stopping) return;
    const Digest env = *state_.wanted.begin();
    state_.wanted.erase(state_.wanted.begin());
    state_.looking = true;
    lock.unlock();
    advise(env);
    lock.lock();
    state_.looking = false;
    changed_.notify_all();
  }
}

void PrefetchJobs::advise(const Digest& env) {
  const auto trace = store_.read_trace(env);
  if (trace) return replay(env, *trace);
  if (trace.error().code != ErrorCode::not_found) ignore_trace(env, trace.error().message);
}

void PrefetchJobs::ignore_trace(const Digest& env, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(state_.known[env].warned, true)) return;
  }
  log(LogLevel::warn, "trace_ignored", {{"env", env.hex()}, {"reason", reason}});
}

void PrefetchJobs::replay(const Digest& env, const format::Trace& trace) {
  const auto layers = attachments_.layers(env);
  if (!layers) return;  // gone meanwhile
  Plan plan = prefetch::plan_trace(trace, *layers);
  if (plan.ranges.empty() && !trace.empty()) {
    return ignore_trace(env, "it names nothing that the environment has");
  }
  end_automatic(env);
  const bool fetches = prefetcher_ && settings_.prefetch == AdviceChoice::automatic;
  {
    const std::uint64_t now = losses();
    const std::lock_guard lock(mutex_);
    Known& known = state_.known[env];
    known.exists = true;
    if (fetches) known.fetched_for = now;
  }
  if (!fetches) return;
  const std::string name = Job::name_of(env, "trace");
  prefetcher_->start(name, std::move(plan));
  if (!attachments_.is_owned(env)) prefetcher_->stop(name);
}

// There is a trace already.
void PrefetchJobs::end_automatic(const Digest& env) {
  std::vector<std::string> owners;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [owner, recording] : state_.recordings) {
      if (recording.env == env && recording.readers == Readers::of_layers) owners.push_back(owner);
    }
  }
  for (const std::string& owner : owners) before_detach(owner);
}

Result<Json> PrefetchJobs::store_trace(const Json& request) {
  const std::string owner = TRY(json_text(request, "owner"));
  std::optional<Recording> recording;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = state_.recordings.find(owner); found != state_.recordings.end()) recording = found->second;
  }
  if (!recording) return Json{{"stored", false}, {"reason", "lazyfsd was started again meanwhile: run it once more"}};
  auto stored = write_trace(*recording);
  before_detach(owner);
  if (stored) return stored;
  const bool automatic = recording->readers == Readers::of_layers;
  bool told = false;
  if (automatic) {
    const std::lock_guard lock(mutex_);
    told = std::exchange(state_.refused, true);
  }
  if (!told)
    log(LogLevel::warn, "trace_not_stored", {{"env", recording->env.hex()}, {"reason", stored.error().message}});
  return Json{{"stored", false}, {"reason", stored.error().message}};
}

Result<Json> PrefetchJobs::write_trace(const Recording& recording) {
  const format::Trace trace = recording.recorder->trace();
  const auto layers = TRY(attachments_.layers(recording.env));
  prefetch::PlanOptions exact;
  exact.max_gap_bytes = 0;
  const Plan plan = prefetch::plan_trace(trace, layers, exact);
  if (trace.empty()) return Json{{"stored", false}, {"reason", "the command read no file of the environment"}};
  const bool keep = recording.readers == Readers::of_layers && store_.read_trace(recording.env);
  if (!keep) TRY(store_.put_trace(recording.env, trace));
  {
    const std::lock_guard lock(mutex_);
    state_.known[recording.env] = Known{true, false, std::nullopt};  // to be fetched once more
  }
  if (keep) return Json{{"stored", false}, {"reason", "there is one already"}};
  log(LogLevel::info, "trace_stored", {{"env", recording.env.hex()}, {"chunks", std::to_string(trace.size())}});
  return Json{{"stored", true}, {"chunks", trace.size()}, {"stored_bytes", plan.bytes}, {"reason", ""}};
}

Result<PrefetchJobs::Job> PrefetchJobs::job_of(const Json& request) {
  const Digest env = TRY(Digest::parse(TRY(json_text(request, "env"))));
  const std::string what = TRY(json_text(request, "what"));
  if (what != "trace" && what != "all") return fail(ErrorCode::invalid, "\"{}\" cannot be fetched", what);
  return Job{env, what == "all"};
}

Json PrefetchJobs::describe_job(const std::string& name) const {
  if (!prefetcher_) {
    return {{"state", "needless"}, {"reason", "lazyfsd keeps no copies of packs: " + no_cache_reason_}};
  }
  const auto progress = prefetcher_->progress(name);
  if (!progress) return {{"state", "unknown"}};
  return {{"state", to_string(progress->state)},
          {"bytes_planned", progress->bytes_planned},
          {"bytes_done", progress->bytes_done},
          {"bytes_fetched", progress->bytes_fetched},
          {"reason", progress->reason}};
}

Result<Json> PrefetchJobs::prefetch(const Json& request, ControlServer::Peer& peer) {
  const Job job = TRY(job_of(request));
  const auto layers = TRY(attachments_.layers(job.env));
  if (!prefetcher_) return describe_job(job.name());
  Plan plan;
  if (job.all) {
    plan = prefetch::plan_all(layers);
  } else {
    auto trace = store_.read_trace(job.env);
    if (!trace && trace.error().code == ErrorCode::not_found) {
      return fail(ErrorCode::not_found,
                  "nobody recorded what environment {} uses: `dsec run --record` a typical command, or fetch all of it "
                  "with --all",
                  job.env.hex());
    }
    plan = prefetch::plan_trace(TRY(std::move(trace)), layers);
  }
  const auto order = job.all ? Prefetcher::Order::last : Prefetcher::Order::first;
  if (prefetcher_->start(job.name(), std::move(plan), order) == Prefetcher::Started::yes) {
    peer.at_end.push_back([this, name = job.name()] { prefetcher_->stop(name); });
  }
  return describe_job(job.name());
}

Result<Json> PrefetchJobs::progress(const Json& request) { return describe_job(TRY(job_of(request)).name()); }

Json PrefetchJobs::describe() {
  Json recording = Json::array();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [owner, what] : state_.recordings) {
      if (recording.size() < kMaxNamed) recording.push_back(owner);
    }
  }
  return {{"running", prefetcher_ ? prefetcher_->running() : 0},
          {"bytes_fetched", prefetcher_ ? prefetcher_->bytes_fetched() : 0},
          {"recording", std::move(recording)}};
}

}  // namespace dsec::daemon
