// SPDX-License-Identifier: Apache-2.0
#include "daemon/merged_images.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "base/log.h"
#include "format/erofs.h"
#include "tree/merged_tree.h"

namespace dsec::daemon {

namespace {

constexpr int kNice = 10;

const char* to_string(MergedRoots when) {
  switch (when) {
    case MergedRoots::automatic: return "auto";
    case MergedRoots::always: return "always";
    case MergedRoots::off: return "off";
  }
  return "unknown";
}

}  // namespace

MergedImages::MergedImages(std::filesystem::path dir, const MergedOptions& options)
    : dir_(std::move(dir), options.quota_bytes), options_(options) {
  thread_ = std::thread([this] { work(); });
}

MergedImages::~MergedImages() {
  stop();
  thread_.join();
}

void MergedImages::stop() {
  {
    auto state = state_.lock();  // so that nobody misses it between looking and sleeping
    stopping_ = true;
  }
  state_.notify_all();
}

bool MergedImages::rests(std::chrono::milliseconds patience) {
  auto state = state_.lock();
  return state.wait_until(Clock::now() + patience, [&] { return state->ended; });
}

MergedImages::Known& MergedImages::known(State& state, const Digest& env) {
  if (state.known.size() >= kMaxKnown && state.known.count(env) == 0) {
    std::erase_if(state.known, [](const auto& entry) { return entry.second.work != Known::Work::waiting; });
  }
  return state.known[env];
}

std::shared_ptr<const Fd> MergedImages::find(const tree::EnvTree& env) {
  if (auto mounted = mount(env.digest())) return mounted;
  if (!request(env) || options_.when != MergedRoots::always) return nullptr;
  auto state = state_.lock();
  state.wait([&] { return stopping_ || known(*state, env.digest()).work != Known::Work::waiting; });
  state.unlock();
  return mount(env.digest());
}

// Null when there is none.
std::shared_ptr<const Fd> MergedImages::mount(const Digest& env) {
  {
    auto state = state_.lock();
    const Known& about = known(*state, env);
    if (!about.may_be_there || about.work == Known::Work::given_up) return nullptr;
  }
  auto mounted = dir_.mount(env);
  if (mounted) return std::make_shared<const Fd>(std::move(*mounted));
  const ErrorCode code = mounted.error().code;
  if (code != ErrorCode::not_found && code != ErrorCode::corrupt) {
    give_up(env, mounted.error().message);
    return nullptr;
  }
  auto state = state_.lock();
  Known& about = known(*state, env);
  about.may_be_there = about.work == Known::Work::waiting;  // it may have come meanwhile
  if (code == ErrorCode::corrupt) about.requests = about.enough;
  return nullptr;
}

// Whether it is being made.
bool MergedImages::request(const tree::EnvTree& env) {
  if (options_.quota_bytes == 0) return false;
  auto state = state_.lock();
  Known& about = known(*state, env.digest());
  if (about.work != Known::Work::none) return about.work == Known::Work::waiting;
  ++about.requests;
  const bool is_wanted = about.requests >= about.enough || options_.when == MergedRoots::always;
  if (!is_wanted || stopping_ || state->waiting >= kMaxWaiting || Clock::now() < state->paused_until) return false;
  about.work = Known::Work::waiting;
  state->jobs.push_back({env.digest(), env.layers()});
  ++state->waiting;
  state_.notify_all();
  return true;
}

void MergedImages::mark_used(const Digest& env) { dir_.mark_used(env); }

void MergedImages::give_up(const Digest& env, const std::string& reason) {
  {
    auto state = state_.lock();
    known(*state, env).work = Known::Work::given_up;
  }
  failed_.add();
  log(LogLevel::warn, "merged_image_given_up", {{"env", env.hex()}, {"reason", reason}});
}

void MergedImages::work() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  [[maybe_unused]] const auto reported_by_put = dir_.prepare();
  while (true) {
    auto state = state_.lock();
    state.wait([&] { return stopping_ || !state->jobs.empty(); });
    if (stopping_) break;
    Job job = std::move(state->jobs.front());
    state->jobs.pop_front();
    const bool is_paused = Clock::now() < state->paused_until;
    state.unlock();
    finish(job.env, is_paused ? Result<void>(fail(ErrorCode::unavailable, "paused")) : build(job));
    job = {};
    ::malloc_trim(0);  // a tree is large, and the next one may be far away
  }
  state_.lock()->ended = true;
  state_.notify_all();
}

Result<void> MergedImages::build(const Job& job) {
  const auto stop = [this] { return stopping_.load(); };
  try {
    Bytes image;
    {
      const format::LayerTree tree = TRY(tree::merged_tree(job.layers, stop));
      if (stop()) return fail(ErrorCode::unavailable, "stopped");
      image = TRY(format::write_layer(tree));
    }
    return dir_.put(job.env, image, stop);
  } catch (const std::exception& error) {  // no memory
    return fail(ErrorCode::no_space, "{}", error.what());
  }
}

// What was stopped counts for nothing.
void MergedImages::finish(const Digest& env, const Result<void>& outcome) {
  const bool was_stopped = !outcome && outcome.error().code == ErrorCode::unavailable;
  const bool is_directorys = !outcome && outcome.error().sys != 0;  // as opposed to the environment's own
  {
    auto state = state_.lock();
    --state->waiting;
    Known& about = known(*state, env);
    about.work = outcome || was_stopped || is_directorys ? Known::Work::none : Known::Work::given_up;
    if (is_directorys) state->paused_until = Clock::now() + options_.pause_after_failure;
    if (outcome) about = {.enough = 2 * about.enough};
  }
  if (outcome) {
    built_.add();
    log(LogLevel::info, "merged_image_made", {{"env", env.hex()}});
  } else if (!was_stopped) {
    failed_.add();
    log(LogLevel::warn, is_directorys ? "merged_images_paused" : "merged_image_given_up",
        {{"env", env.hex()}, {"reason", outcome.error().message}});
  }
  state_.notify_all();
}

MergedImages::Figures MergedImages::figures() const { return {dir_.usage(), built_.get(), failed_.get()}; }

Json MergedImages::describe() {
  const Figures now = figures();
  return {{"mode", to_string(options_.when)},
          {"images", now.usage.images},
          {"bytes", now.usage.bytes},
          {"quota_bytes", dir_.quota_bytes()},
          {"waiting", state_.lock()->waiting},
          {"built", now.built},
          {"failed", now.failed}};
}

Json describe(MergedImages* images) {
  if (images != nullptr) return images->describe();
  Json none = {{"mode", to_string(MergedRoots::off)}};
  for (const char* figure : {"images", "bytes", "quota_bytes", "waiting", "built", "failed"}) none[figure] = 0;
  return none;
}

}  // namespace dsec::daemon
