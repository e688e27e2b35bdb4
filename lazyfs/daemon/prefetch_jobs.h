// SPDX-License-Identifier: Apache-2.0
// What the daemon does ahead of need: it records what runs use and fetches what the next ones will.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/json.h"
#include "base/result.h"
#include "daemon/attachments.h"
#include "daemon/chunk_stack.h"
#include "daemon/control_server.h"
#include "daemon/settings.h"
#include "prefetch/prefetcher.h"
#include "prefetch/recorder.h"
#include "store/store.h"

namespace dsec::daemon {

// What an environment is attached for.
enum class Purpose : std::uint8_t {
  other,   // nothing is expected of it
  look,    // a mount: what was recorded is fetched
  run,     // a command: the same, and the first one is recorded
  record,  // a command that is to be recorded
};
// `invalid` for what is none.
Result<Purpose> parse_purpose(std::string_view text);

// Recordings and jobs of all environments. All of it is advice: what fails is one log line and never the failure of who
// runs something. One thread reads traces, so that nobody who attaches waits for the store. Thread-safe.
class PrefetchJobs {
 public:
  // `attachments` lives longer. Without a node cache nothing is fetched: there is no place for it.
  PrefetchJobs(store::Store store, Attachments& attachments, const ChunkStack& chunks, const Settings& settings);
  // Waits for reads under way.
  ~PrefetchJobs();
  PrefetchJobs(const PrefetchJobs&) = delete;
  PrefetchJobs& operator=(const PrefetchJobs&) = delete;

  // Begins nothing more; whether nothing of ours waits for the store after `patience`.
  bool stop(std::chrono::milliseconds patience);

  // Before and after `owner` attaches an environment. Before: `exists` when somebody records it already.
  Result<void> before_attach(const Digest& env, Purpose purpose, const std::string& owner);
  void after_attach(const Digest& env, Purpose purpose, const std::string& owner);
  // An owner goes, or never came; `unused` are the environments that it was the last to use.
  void before_detach(const std::string& owner);
  void after_detach(const std::vector<Digest>& unused);
  // Whether what it uses is recorded.
  [[nodiscard]] bool is_recorded(const std::string& owner);

  // Control requests:
  //   {"owner"}              the run is over, its trace is wanted: {"stored", "chunks", "stored_bytes", "reason"}
  Result<Json> store_trace(const Json& request);
  //   {"env", "what"}        "trace" or "all" is fetched, from now on if it is not yet; what the caller started ends
  //                          with its connection. Then as progress().
  Result<Json> prefetch(const Json& request, ControlServer::Peer& peer);
  //   {"env", "what"}        {"state", "bytes_planned", "bytes_done", "bytes_fetched", "reason"}; the state is that of
  //                          prefetch::Progress, "unknown" (never started here), or "needless" with the reason
  Result<Json> progress(const Json& request);

  // {"running": jobs, "bytes_fetched", "recording": [owners]}
  Json describe();

 private:
  struct Recording {
    Digest env;
    Attachments::Readers readers = Attachments::Readers::of_layers;
    std::shared_ptr<prefetch::Recorder> recorder;
    bool attached = false;
  };
  // What is known of an environment's trace.
  struct Known {
    bool exists = false;
    bool warned = false;                       // of one that is no good
    std::optional<std::uint64_t> fetched_for;  // losses of the node cache when it was last fetched
  };
  struct State {
    std::map<std::string, Recording> recordings;  // by owner
    std::map<Digest, Known> known;
    std::set<Digest> wanted;  // whose traces are to be looked at
    bool refused = false;     // the store takes no traces
    bool stopping = false;
    bool looking = false;  // a trace is being read
  };
  static constexpr std::size_t kMaxKnown = 4096;  // beyond it all is forgotten, and found out again
  struct Job;
  static Result<Job> job_of(const Json& request);

  void work();
  void advise(const Digest& env);
  void replay(const Digest& env, const format::Trace& trace);
  bool needs_look(const Digest& env);
  [[nodiscard]] std::uint64_t losses() const;
  void record_first_run(const Digest& env, const std::string& owner);
  void end_automatic(const Digest& env);
  void ignore_trace(const Digest& env, const std::string& reason);
  Result<Json> write_trace(const Recording& recording);
  Json describe_job(const std::string& name) const;

  store::Store store_;
  Attachments& attachments_;
  std::shared_ptr<store::NodeCache> cache_;
  std::string no_cache_reason_;
  const Settings settings_;
  std::unique_ptr<prefetch::Prefetcher> prefetcher_;  // null without a node cache
  std::mutex mutex_;                                  // guards state_; never held while others are called
  std::condition_variable changed_;
  State state_;
  std::thread thread_;
};

}  // namespace dsec::daemon
