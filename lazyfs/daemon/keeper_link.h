// SPDX-License-Identifier: Apache-2.0
// lazyfsd's side of its keeper.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/json.h"
#include "base/process.h"
#include "base/result.h"
#include "control/handover.h"
#include "fuse/device.h"

namespace dsec::daemon {

// What a keeper handed over, and the channel to it. Thread-safe, but news() is for one thread.
class KeeperLink {
 public:
  // Takes the descriptors at the numbers of control/handover.h: once, at the start of the process.
  static Result<std::unique_ptr<KeeperLink>> take();
  // A keeper that we started lives on without us.
  ~KeeperLink() {
    if (keeper_) keeper_->detach();
  }
  KeeperLink(const KeeperLink&) = delete;
  KeeperLink& operator=(const KeeperLink&) = delete;

  [[nodiscard]] const control::Handover& handover() const { return handover_; }
  // Copies, for who serves them: 0 plain, 1 with xattrs.
  Result<fuse::Device> device(std::size_t which) const;
  Result<Fd> listener() const;

  void tell(control::Signal signal);
  // The mounts are served through io_uring: neither this keeper nor the next may have a successor go on with them.
  void tell_of_rings();
  // To be polled for reading; -1 while there is no keeper.
  int channel() const;
  // `stop`: the keeper wants us to end. Also beats, and replaces a keeper that died: we have all that it had. That is
  // tried a few times, after a pause, so that who kills both of us need not be quick.
  enum class News { none, stop };
  News news();

  // {"pid", "restarts", "last_reason"}; the pid is null while there is no keeper: then nobody starts us again.
  Json describe() const;
  // Who ends last: the keeper, or we.
  pid_t last_to_end() const;

 private:
  using Clock = std::chrono::steady_clock;
  KeeperLink(control::Handover handover, Fd channel) : handover_(std::move(handover)), channel_(std::move(channel)) {}
  void lose_keeper();
  void replace_keeper();
  Result<void> start_keeper();

  control::Handover handover_;
  Fd listener_;
  Fd lock_;
  std::array<Fd, 2> devices_;
  mutable std::mutex mutex_;            // guards what follows
  Fd channel_;                          // none: the keeper died
  std::optional<ChildProcess> keeper_;  // one that we started
  Clock::time_point keeper_since_;
  Clock::time_point last_beat_;
  Clock::time_point next_try_;
  int tries_ = 0;
};

}  // namespace dsec::daemon
