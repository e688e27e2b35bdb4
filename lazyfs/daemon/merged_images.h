// SPDX-License-Identifier: Apache-2.0
// Which environments get a merged image (docs/decisions/0014-merged-images.md), and the thread that makes them.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/guarded.h"
#include "base/json.h"
#include "base/metrics.h"
#include "daemon/merged_dir.h"
#include "tree/env_tree.h"

namespace dsec::daemon {

// How object roots use merged images.
enum class MergedRoots {
  automatic,  // made in the background for what is attached repeatedly
  always,     // who attaches first waits for it
  off,
};

struct MergedOptions {
  MergedRoots when = MergedRoots::automatic;
  std::uint64_t quota_bytes = 0;  // 0: none is kept
  // A disk that took no image is left alone for so long.
  std::chrono::milliseconds pause_after_failure = std::chrono::minutes(10);
};

// Makes merged images on a thread of its own, one at a time, at low priority. All of it is advice: what fails is a log
// line and a root of the layers. What fails for an environment's own sake is not tried again by this process; when the
// directory takes no file, nothing is made for a while. Thread-safe.
class MergedImages {
 public:
  static constexpr std::uint64_t kRequestsToBuild = 2;  // twice as many for each time that it was made before
  static constexpr std::size_t kMaxWaiting = 256;       // environments; what comes then waits for its next request
  static constexpr std::size_t kMaxKnown = 16384;       // environments; beyond it all is forgotten and counted anew

  MergedImages(std::filesystem::path dir, const MergedOptions& options);
  // Waits for the step that the thread is in.
  ~MergedImages();
  MergedImages(const MergedImages&) = delete;
  MergedImages& operator=(const MergedImages&) = delete;

  // A mount of the merged image of an environment, if there is one; otherwise this is a request for it, which may make
  // it be made, and with MergedRoots::always waits for it.
  std::shared_ptr<const Fd> find(const tree::EnvTree& env);
  // A root that was made of it is used again.
  void mark_used(const Digest& env);
  // No root can be made of it: there is none from now on.
  void give_up(const Digest& env, const std::string& reason);

  // Begins nothing more, and nobody waits any longer. Returns at once.
  void stop();
  // After stop(): whether the thread has ended after `patience`.
  bool rests(std::chrono::milliseconds patience);

  // {"mode", "images", "bytes", "quota_bytes", "waiting", "built", "failed"}; `waiting` counts the one that is being
  // made.
  [[nodiscard]] Json describe();
  struct Figures {
    MergedDir::Usage usage;
    std::uint64_t built = 0;
    std::uint64_t failed = 0;
  };
  [[nodiscard]] Figures figures() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Layers = std::vector<std::shared_ptr<const store::Layer>>;
  struct Known {
    bool may_be_there = true;  // an image on the disk
    enum class Work : std::uint8_t { none, waiting, given_up } work = Work::none;
    std::uint64_t requests = 0;  // since it was last there
    std::uint64_t enough = kRequestsToBuild;
  };
  struct Job {
    Digest env;
    Layers layers;
  };
  struct State {
    std::map<Digest, Known> known;
    std::deque<Job> jobs;
    std::size_t waiting = 0;  // jobs and the one that is being made
    Clock::time_point paused_until{};
    bool ended = false;  // the thread
  };

  std::shared_ptr<const Fd> mount(const Digest& env);
  static Known& known(State& state, const Digest& env);
  bool request(const tree::EnvTree& env);
  void work();
  Result<void> build(const Job& job);
  void finish(const Digest& env, const Result<void>& outcome);

  MergedDir dir_;
  const MergedOptions options_;
  std::atomic<bool> stopping_ = false;
  Counter built_;
  Counter failed_;
  Guarded<State> state_;
  std::thread thread_;
};

// The same; of none: "mode" is "off" and all else 0.
Json describe(MergedImages* images);

}  // namespace dsec::daemon
