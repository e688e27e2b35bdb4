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

// A job as it was when we first saw it: what was fetched before is no figure of how fast it is now.
struct Beginning {
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
  std::uint64_t fetched_bytes = 0;
};

// "12.0 MiB of 34.0 MiB  4.1 MiB/s  5 s left"; the speed is that of the store, and what is left is taken to come from
// there.
std::string text_of(const FetchProgress& progress, const Beginning& since, std::string_view between) {
  std::string text = fmt::format("{} of {}", human_size(progress.done_bytes), human_size(progress.planned_bytes));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - since.at;
  if (seconds.count() < 0.2 || progress.fetched_bytes <= since.fetched_bytes) return text;
  const double rate = static_cast<double>(progress.fetched_bytes - since.fetched_bytes) / seconds.count();
  const auto left = static_cast<double>(progress.planned_bytes - std::min(progress.done_bytes, progress.planned_bytes));
  return text + fmt::format("{}{}/s{}{:.0f} s left", between, human_size(static_cast<std::uint64_t>(rate)), between,
                            left / rate);
}

// With "[#####.........]  36%  " before it.
std::string bar_of(const FetchProgress& progress, const Beginning& since) {
  const std::uint64_t total = std::max<std::uint64_t>(progress.planned_bytes, 1);
  const std::uint64_t done = std::min(progress.done_bytes, total);
  const std::size_t filled = kBarWidth * done / total;
  return fmt::format("[{}{}] {:3}%  {}", std::string(filled, '#'), std::string(kBarWidth - filled, '.'),
                     done * 100 / total, text_of(progress, since, "  "));
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
  FetchProgress progress = TRY(client.prefetch(env, what));
  Beginning since{std::chrono::steady_clock::now(), progress.fetched_bytes};
  while (progress.state == State::running || progress.state == State::unknown || progress.state == State::stopped) {
    if (progress.state != State::running) {
      progress = TRY(client.prefetch(env, what));
      since = {std::chrono::steady_clock::now(), progress.fetched_bytes};
    }
    if (json) {
      line.update("prefetch", progress.done_bytes, progress.planned_bytes);
    } else {
      line.say(bar_of(progress, since), "dsec: fetched ahead: " + text_of(progress, since, ", "));
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
