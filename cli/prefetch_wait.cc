// SPDX-License-Identifier: Apache-2.0
#include "cli/prefetch_wait.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "cli/output.h"

namespace dsec::cli {

using control::Client;
using control::Fetch;
using control::FetchProgress;
using State = FetchProgress::State;

namespace {

constexpr std::chrono::milliseconds kPause{50};
constexpr std::size_t kBarWidth = 30;

// "[#####.........]  36%  12M of 34M  4.1M/s  5 s left"
std::string bar_of(const FetchProgress& progress, double seconds) {
  const std::uint64_t total = std::max<std::uint64_t>(progress.planned_bytes, 1);
  const std::uint64_t done = std::min(progress.done_bytes, total);
  const std::size_t filled = kBarWidth * done / total;
  std::string text =
      fmt::format("[{}{}] {:3}%  {} of {}", std::string(filled, '#'), std::string(kBarWidth - filled, '.'),
                  done * 100 / total, human_size(progress.done_bytes), human_size(progress.planned_bytes));
  if (seconds < 0.2 || done == 0) return text;
  const double rate = static_cast<double>(done) / seconds;
  return text + fmt::format("  {}/s  {:.0f} s left", human_size(static_cast<std::uint64_t>(rate)),
                            static_cast<double>(total - done) / rate);
}

Result<FetchProgress> end_of(const FetchProgress& progress) {
  if (progress.state == State::failed) return fail(ErrorCode::io, "fetch ahead: {}", progress.reason);
  if (progress.state == State::done && progress.done_bytes < progress.planned_bytes) {
    return fail(ErrorCode::io, "fetch ahead: {} of {} bytes did not come: {}",
                progress.planned_bytes - progress.done_bytes, progress.planned_bytes, progress.reason);
  }
  return progress;
}

Result<FetchProgress> wait_for(Client& client, const Digest& env, Fetch what, bool json) {
  ProgressLine line(json);
  auto began = std::chrono::steady_clock::now();
  FetchProgress progress = TRY(client.prefetch(env, what));
  while (progress.state == State::running || progress.state == State::unknown || progress.state == State::stopped) {
    if (progress.state != State::running) {
      began = std::chrono::steady_clock::now();
      progress = TRY(client.prefetch(env, what));
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    if (json) {
      line.update("prefetch", progress.done_bytes, progress.planned_bytes);
    } else {
      line.say(bar_of(progress, seconds.count()));
    }
    if (progress.state == State::running) std::this_thread::sleep_for(kPause);
    progress = TRY(client.prefetch_progress(env, what));
  }
  return end_of(progress);
}

}  // namespace

// The lease ends with us, so that nothing goes on when we are interrupted.
Result<FetchProgress> fetch_ahead(Client& client, const Digest& env, Fetch what, bool json) {
  const std::string owner = fmt::format("prefetch:{}", ::getpid());
  TRY(client.attach(env, control::TreeView::plain, owner, Client::Lease::with_connection));
  auto end = wait_for(client, env, what, json);
  TRY(client.detach(owner));
  return end;
}

}  // namespace dsec::cli
