// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>

#include "base/lock_file.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/process.h"
#include "control/handover.h"
#include "control/wire.h"
#include "daemon/attach_log.h"
#include "daemon/attach_requests.h"
#include "daemon/attachments.h"
#include "daemon/chunk_stack.h"
#include "daemon/control_server.h"
#include "daemon/insight.h"
#include "daemon/keeper_link.h"
#include "daemon/kept_settings.h"
#include "daemon/known_store.h"
#include "daemon/leases.h"
#include "daemon/merged_images.h"
#include "daemon/metrics_server.h"
#include "daemon/prefetch_jobs.h"
#include "daemon/served_mount.h"
#include "daemon/stats_document.h"
#include "fuse/rings.h"

namespace dsec::daemon {

namespace {

constexpr std::size_t kRecipeCacheBytes = 64 << 20;
constexpr std::size_t kMaxNamed = 100;  // of owners, in a message
constexpr int kWatchPeriodMs = 250;
constexpr std::chrono::milliseconds kDrainPatience{2000};

void raise_descriptor_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// The mount without xattrs also has the objects.
std::shared_ptr<tree::Namespace> make_names(const std::shared_ptr<store::ChunkSource>& source,
                                            fuse::SessionOptions::Xattrs xattrs) {
  const auto reader = [&] { return std::make_unique<tree::ContentReader>(source, kRecipeCacheBytes); };
  std::shared_ptr<tree::ObjectTable> objects;
  if (xattrs == fuse::SessionOptions::Xattrs::no) objects = std::make_shared<tree::ObjectTable>(reader());
  return std::make_shared<tree::Namespace>(reader(), objects);
}

Json counts_of(const fuse::RequestCounts& counts) {
  return {{"lookup", counts.lookup.get()},
          {"getattr", counts.getattr.get()},
          {"readlink", counts.readlink.get()},
          {"read", counts.read.get()},
          {"lseek", counts.lseek.get()},
          {"readdir", counts.readdir.get()},
          {"readdirplus", counts.readdirplus.get()},
          {"getxattr", counts.getxattr.get()},
          {"listxattr", counts.listxattr.get()},
          {"statfs", counts.statfs.get()},
          {"open", counts.open.get()}};
}

class Daemon {
 public:
  explicit Daemon(const Settings& settings) : settings_(settings) {}

  Result<void> run() {
    TRY(make_dirs(settings_.dir));
    block_signals();
    TRY(settings_.handover_fd < 0 ? take_lock() : take_handover());
    raise_descriptor_limit();
    if (!settings_.file_problem.empty()) {
      log(LogLevel::error, "settings_of_before", {{"reason", settings_.file_problem}});
    }
    TRY(start());
    if (keeper_) keep_settings(settings_);
    std::thread watcher([this] { watch(); });
    log(LogLevel::info, "serving", {{"store", settings_.store.native()}, {"dir", settings_.dir.native()}});
    tell_ready();
    const bool nobody_asks = server_->run(kDrainPatience);
    done_ = true;
    watcher.join();
    metrics_.reset();  // a successor listens there
    if (leaving_ == Leaving::to_successor) {
      leave_to_successor(nobody_asks);
    } else {
      end(nobody_asks);
    }
    return {};
  }

 private:
  enum class Leaving { no, for_good, to_successor };

  Result<void> take_lock() {
    auto lock = LockFile::try_take(settings_.dir / "lazyfsd.lock");
    if (!lock && lock.error().code == ErrorCode::exists) {
      return fail(ErrorCode::exists, "another lazyfsd serves {}", settings_.dir.native());
    }
    lock_.emplace(TRY(std::move(lock)));
    control::remove_what_was_left(settings_.dir);  // of mounts that are gone
    return {};
  }

  // A keeper started us: it has the lock, the mounts and the socket.
  Result<void> take_handover() {
    if (settings_.handover_fd != control::kHandoverFd) {
      return fail(ErrorCode::invalid, "--handover-fd is for lazyfs-keeper");
    }
    keeper_ = TRY(KeeperLink::take());
    return {};
  }

  // Nothing of ours stays.
  void end(bool nobody_asks) {
    if (keeper_) keeper_->tell(control::Signal::stopped);
    std::error_code ignored;
    std::filesystem::remove(settings_.dir / "control", ignored);
    control::remove_what_was_left(settings_.dir);
    const auto until = std::chrono::steady_clock::now() + kDrainPatience;
    bool rests = nobody_asks;
    for (ServedMount* mount : {&plain_, &with_xattrs_}) {
      rests = mount->stop(left_until(until)) == fuse::Session::Drained::yes && rests;
    }
    rests = others_rest(until) && rests;
    log(LogLevel::info, "stopped");
    if (!rests) ::_exit(0);  // a thread hangs in the store, or in a disk, and cannot be waited for
  }

  static std::chrono::milliseconds left_until(std::chrono::steady_clock::time_point until) {
    const auto left = until - std::chrono::steady_clock::now();
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds(0));
  }

  bool others_rest(std::chrono::steady_clock::time_point until) {
    return prefetch_->stop(left_until(until)) && (!merged_ || merged_->rests(left_until(until)));
  }

  // The mounts stay. What is still not answered after a while is sent to the successor again, where the kernel can.
  void leave_to_successor(bool nobody_asks) {
    keeper_->tell(control::Signal::beat);
    const auto until = std::chrono::steady_clock::now() + kDrainPatience;
    prefetch_->stop(std::chrono::milliseconds(0));
    const bool drained = plain_.drain(left_until(until)) == fuse::Session::Drained::yes &&
                         with_xattrs_.drain(left_until(until)) == fuse::Session::Drained::yes;
    const bool rests = others_rest(until) && nobody_asks;
    log(LogLevel::info, "left_to_successor", {{"drained", drained ? "yes" : "no"}});
    keeper_->tell(drained ? control::Signal::drained : control::Signal::hurried);
    // A thread hangs in the store, or in a disk, and cannot be waited for.
    if (!drained || !rests) ::kill(::getpid(), SIGKILL);
  }

  // What a predecessor showed is shown again without asking the store, which may not answer; a first start must find
  // it.
  Result<KnownStore> find_store() {
    std::error_code ignored;
    const bool goes_on = keeper_ && std::filesystem::exists(settings_.dir / "attachments", ignored);
    if (!goes_on) return open_store(settings_.store);
    auto recalled = recall_store(settings_.store, settings_.dir);
    if (recalled || recalled.error().code != ErrorCode::not_found) return recalled;
    return open_store(settings_.store);
  }

  Result<void> start() {
    KnownStore known = TRY(find_store());
    const store::Store& store = known.store;
    auto layers = TRY(store::LayerCache::open(store, settings_.cache_dir));
    auto slots = TRY(tree::SlotTable::open(settings_.dir / "slots"));
    chunks_ = make_chunk_stack(known, settings_, meter_);
    if (!known.is_recalled) remember_store(known, settings_.dir);
    store_check_ = known.is_recalled ? std::make_unique<StoreCheck>(store) : std::make_unique<StoreCheck>();
    const std::shared_ptr<store::ChunkSource>& source = chunks_.source;
    fuse::SessionOptions options;
    options.threads = static_cast<unsigned>(settings_.threads);
    options.request_deadline = settings_.read_deadline;
    options.read_ahead_kb = static_cast<unsigned>(settings_.read_ahead_kb);
    options.busy_poll = std::chrono::microseconds(settings_.busy_poll_us);
    options.tap = tap_;
    options.where = whereabouts(chunks_);
    if (keeper_) options.in_flight = in_flight_of(keeper_->handover());
    options.transport = choose_transport();
    MountedNames plain = TRY(open_mount(plain_, 0, source, options));
    options.xattrs = fuse::SessionOptions::Xattrs::yes;
    MountedNames with_xattrs = TRY(open_mount(with_xattrs_, 1, source, options));
    make_merged_images();
    attachments_ = std::make_unique<Attachments>(store, std::move(layers), std::move(slots), std::move(plain),
                                                 std::move(with_xattrs), merged_.get());
    prefetch_ = std::make_unique<PrefetchJobs>(store, *attachments_, chunks_, settings_);
    attach_ = std::make_unique<AttachRequests>(AttachRequests::Parts{
        attachments_.get(), prefetch_.get(), &leases_, store_check_.get(), [this] { return leaving_ != Leaving::no; }});
    look_inside();
    TRY(restore_attachments());
    plain_.serve();
    with_xattrs_.serve();
    Fd listener = TRY(keeper_ ? keeper_->listener() : control::listen_on(settings_.dir / "control"));
    auto all = handlers();
    all.merge(insight_->handlers());
    server_ = std::make_unique<ControlServer>(std::move(listener), std::move(all));
    return {};
  }

  void make_merged_images() {
    if (settings_.merged_roots == MergedRoots::off) return;
    MergedOptions options;
    options.when = settings_.merged_roots;
    options.quota_bytes = settings_.merged_quota_bytes;
    merged_ = std::make_unique<MergedImages>(settings_.cache_dir / "merged", options);
  }

  void look_inside() {
    Sight sight;
    sight.chunks = &chunks_;
    sight.attachments = attachments_.get();
    sight.merged = merged_.get();
    sight.tap = tap_;
    sight.store = settings_.store.native();
    insight_ = std::make_unique<Insight>(std::move(sight));
    if (!settings_.metrics_listen) return;
    metrics_ =
        std::make_unique<MetricsServer>(*settings_.metrics_listen, [this] { return exposition(insight_->sight()); });
  }

  static fuse::SessionOptions::InFlight in_flight_of(const control::Handover& handover) {
    switch (handover.in_flight) {
      case control::Handover::InFlight::none: return fuse::SessionOptions::InFlight::none;
      case control::Handover::InFlight::serve: return fuse::SessionOptions::InFlight::serve;
      case control::Handover::InFlight::refuse: return fuse::SessionOptions::InFlight::refuse;
    }
    return fuse::SessionOptions::InFlight::none;
  }

  // The keeper must know before the kernel does.
  fuse::Transport choose_transport() {
    if (settings_.transport == TransportChoice::fuse) return fuse::Transport::device;
    if (!keeper_) return fuse::Transport::io_uring;
    const auto works = keeper_->handover().is_first
                           ? fuse::try_rings(keeper_->handover().inits[0])
                           : fail(ErrorCode::unsupported, "its mounts go on with /dev/fuse until it is stopped");
    if (!works) {
      log(LogLevel::warn, "transport_is_device", {{"reason", works.error().message}});
      return fuse::Transport::device;
    }
    keeper_->tell_of_rings();
    return fuse::Transport::io_uring;
  }

  [[nodiscard]] bool has_rings() const { return plain_.session().transport() == fuse::Transport::io_uring; }

  Result<MountedNames> open_mount(ServedMount& mount, std::size_t which,
                                  const std::shared_ptr<store::ChunkSource>& source, fuse::SessionOptions options) {
    static constexpr std::array kNames{"mnt", "mnt-xattr"};
    std::optional<fuse::Device> device;
    if (keeper_) device = TRY(keeper_->device(which));
    return mount.open(settings_.dir / kNames[which], make_names(source, options.xattrs), options, std::move(device));
  }

  // Before requests are read: what a predecessor showed is shown again, under the same numbers.
  Result<void> restore_attachments() {
    auto log = TRY(AttachLog::open(settings_.dir / "attachments"));
    for (const AttachLog::Shown& shown : log->shown()) {
      for (const auto& [owner, holder] : shown.owners) {
        if (holder) leases_.keep(owner, *holder);
      }
    }
    return attachments_->restore(std::move(log));
  }

  std::map<std::string, ControlServer::Handler> handlers() {
    using Peer = ControlServer::Peer;
    return {{"attach", [this](const Json& request, Peer& peer) { return attach_->attach(request, peer); }},
            {"detach", [this](const Json& request, Peer&) { return attach_->detach(request); }},
            {"upgrade", [this](const Json&, Peer&) { return upgrade(); }},
            {"usage", [this](const Json& request, Peer&) { return attach_->usage(request); }},
            {"store_trace", [this](const Json& request, Peer&) { return prefetch_->store_trace(request); }},
            {"prefetch", [this](const Json& request, Peer& peer) { return prefetch_->prefetch(request, peer); }},
            {"prefetch_progress", [this](const Json& request, Peer&) { return prefetch_->progress(request); }},
            {"status", [this](const Json&, Peer&) -> Result<Json> { return status(); }},
            {"stop", [this](const Json& request, Peer&) { return stop(request); }}};
  }

  Json status() {
    Json document = attachments_->describe();
    document.update(Json{
        {"pid", ::getpid()},
        {"keeper", keeper_ ? keeper_->describe() : Json()},
        {"version", DSEC_VERSION},
        {"store", settings_.store.native()},
        {"store_check", store_check_->describe()},
        {"settings_problem", settings_.file_problem},
        {"transport", has_rings() ? "io_uring" : "fuse"},
        {"object_mode", attachments_->object_mode()},
        {"merged_images", describe(merged_.get())},
        {"fetches", meter_->fetches.get()},
        {"fetch_failures", meter_->failures.get()},
        {"store_bytes", meter_->store_bytes.get()},
        {"chunks", describe(chunks_)},
        {"prefetch", prefetch_->describe()},
        {"requests",
         {{"mnt", counts_of(plain_.session().counts())}, {"mnt-xattr", counts_of(with_xattrs_.session().counts())}}}});
    return document;
  }

  Result<Json> stop(const Json& request) {
    const bool force = TRY(json_bool(request, "force"));
    std::vector<std::string> owners = attachments_->owners();
    if (!force && !owners.empty()) {
      const std::size_t more = owners.size() - std::min(owners.size(), kMaxNamed);
      owners.resize(owners.size() - more);
      return fail(ErrorCode::exists, "in use by {}{}; end them first, or stop with --force", fmt::join(owners, ", "),
                  more > 0 ? fmt::format(" and {} more", more) : "");
    }
    leave(Leaving::for_good);
    return Json{{"pid", keeper_ ? keeper_->last_to_end() : ::getpid()}};
  }

  Result<Json> upgrade() {
    if (!keeper_ || keeper_->channel() < 0) {
      return fail(ErrorCode::unavailable, "lazyfsd has no keeper that would start another one; `dsec fs stop` it");
    }
    if (has_rings()) {
      return fail(
          ErrorCode::unsupported,
          "mounts with transport = \"io_uring\" cannot be handed over; end what uses them, then `dsec fs stop`");
    }
    TRY(check_successor());
    leave(Leaving::to_successor);
    return Json::object();
  }

  // The program as it is installed now reads its settings; nothing is interrupted for one that could not.
  Result<void> check_successor() const {
    std::vector<std::string> command{sibling_program("lazyfsd").native(), "--check-settings"};
    const auto& arguments = keeper_->handover().arguments;
    command.insert(command.end(), arguments.begin(), arguments.end());
    if (const auto fine = run_program(command); !fine) {
      return fail(ErrorCode::invalid, "nothing was interrupted: the next lazyfsd could not start: {}",
                  fine.error().message);
    }
    return {};
  }

  void leave(Leaving how) {
    Leaving staying = Leaving::no;
    leaving_.compare_exchange_strong(staying, how);
    if (merged_) merged_->stop();
    server_->stop();
  }

  // Before any thread starts, so that all of them have it.
  static void block_signals() {
    sigset_t set = stop_signals();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
  }

  static sigset_t stop_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return set;
  }

  void watch() {
    const sigset_t set = stop_signals();
    const Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    LogFile log_file(settings_.dir / "lazyfsd.log");
    while (!done_) {
      log_file.tend(keeper_ && keeper_->channel() >= 0 ? LogFile::Role::follows : LogFile::Role::rotates);
      std::array<pollfd, 2> polled{pollfd{signals.get(), POLLIN, 0},
                                   pollfd{keeper_ ? keeper_->channel() : -1, POLLIN, 0}};
      ::poll(polled.data(), polled.size(), kWatchPeriodMs);
      if (polled[0].revents != 0) {
        // Whoever ends us alone gets a successor; the keeper is the one to be asked for more.
        const bool kept = keeper_ && keeper_->channel() >= 0 && !has_rings();
        leave(kept ? Leaving::to_successor : Leaving::for_good);
      }
      if (keeper_ && keeper_->news() == KeeperLink::News::stop) leave(Leaving::for_good);
      for (const std::string& owner : leases_.ended()) attach_->detach_owner(owner);
      const bool idle = settings_.idle_exit.count() > 0 && attachments_->idle_for() >= settings_.idle_exit;
      if (idle) leave(Leaving::for_good);
    }
  }

  void tell_ready() {
    if (keeper_) keeper_->tell(control::Signal::ready);
    if (settings_.ready_fd < 0) return;
    const Fd ready(settings_.ready_fd);
    [[maybe_unused]] const auto ignored = write_all(ready, as_bytes("1"));  // nobody may be waiting any more
  }

  Settings settings_;
  std::shared_ptr<store::FetchMeter> meter_ = std::make_shared<store::FetchMeter>();
  ChunkStack chunks_;
  std::unique_ptr<StoreCheck> store_check_;
  std::optional<LockFile> lock_;
  std::unique_ptr<KeeperLink> keeper_;  // none: started by hand, everything is ours
  Leases leases_;                       // of connections to a predecessor
  std::atomic<Leaving> leaving_ = Leaving::no;
  ServedMount plain_;
  ServedMount with_xattrs_;
  std::unique_ptr<MergedImages> merged_;  // none: the settings say so
  std::unique_ptr<Attachments> attachments_;
  std::unique_ptr<PrefetchJobs> prefetch_;
  std::unique_ptr<AttachRequests> attach_;
  std::shared_ptr<fuse::RequestTap> tap_ = std::make_shared<fuse::RequestTap>();
  std::unique_ptr<Insight> insight_;
  std::unique_ptr<MetricsServer> metrics_;  // none unless the settings say where
  std::unique_ptr<ControlServer> server_;
  std::atomic<bool> done_ = false;
};

}  // namespace

Result<void> run_daemon(const Settings& settings) { return Daemon(settings).run(); }

}  // namespace dsec::daemon
