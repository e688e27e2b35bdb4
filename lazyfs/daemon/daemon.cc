// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/lock_file.h"
#include "base/log.h"
#include "control/wire.h"
#include "daemon/attachments.h"
#include "daemon/control_server.h"
#include "store/decorators.h"
#include "store/sources.h"

namespace dsec::daemon {

namespace {

constexpr std::size_t kRecipeCacheBytes = 64 << 20;

// From the reader down: memory, one fetch at a time, counting, digests, retries, the packs.
std::unique_ptr<store::ChunkSource> chunk_stack(const store::Store& store, const Settings& settings,
                                                const std::shared_ptr<store::FetchMeter>& meter) {
  auto source = store::directory_source(store, io::make_sync_engine());
  source = store::retry(std::move(source), {});
  source = store::verify(std::move(source));
  source = store::metered(std::move(source), meter);
  source = store::merge_in_flight(std::move(source));
  return store::memory_cached(std::move(source), settings.memory_cache_bytes);
}

// A mount of a daemon that died is in the way: users of it get ENOTCONN already.
void clear_stale_mount(const std::filesystem::path& path) {
  while (::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
    log(LogLevel::warn, "stale_mount_removed", {{"path", path.native()}});
  }
}

void raise_descriptor_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// A mount and the thread that serves it.
class ServedMount {
 public:
  ServedMount() = default;
  ~ServedMount() { stop(); }
  ServedMount(const ServedMount&) = delete;
  ServedMount& operator=(const ServedMount&) = delete;

  Result<MountedNames> start(const std::filesystem::path& path, const std::shared_ptr<store::ChunkSource>& source,
                             fuse::SessionOptions options) {
    clear_stale_mount(path);
    TRY(make_dirs(path));
    auto names = std::make_shared<tree::Namespace>(std::make_unique<tree::ContentReader>(source, kRecipeCacheBytes));
    session_ = TRY(fuse::Session::mount(names, path, options));
    thread_ = std::thread([this] { session_->run(); });
    return MountedNames{path, std::move(names), session_.get()};
  }

  void stop() {
    if (session_) session_->unmount();
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] const fuse::Session& session() const { return *session_; }

 private:
  std::unique_ptr<fuse::Session> session_;
  std::thread thread_;
};

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
    auto lock = LockFile::try_take(settings_.dir / "lazyfsd.lock");
    if (!lock && lock.error().code == ErrorCode::exists) {
      return fail(ErrorCode::exists, "another lazyfsd serves {}", settings_.dir.native());
    }
    const LockFile held = TRY(std::move(lock));
    block_signals();
    raise_descriptor_limit();
    TRY(start());
    std::thread watcher([this] { watch(); });
    log(LogLevel::info, "serving", {{"store", settings_.store.native()}, {"dir", settings_.dir.native()}});
    tell_ready();
    server_->run();
    done_ = true;
    watcher.join();
    std::error_code ignored;
    std::filesystem::remove(settings_.dir / "control", ignored);
    plain_.stop();
    with_xattrs_.stop();
    log(LogLevel::info, "stopped");
    return {};
  }

 private:
  Result<void> start() {
    const store::Store store = TRY(store::Store::open(settings_.store));
    auto layers = TRY(store::LayerCache::open(store, settings_.cache_dir));
    auto slots = TRY(tree::SlotTable::open(settings_.dir / "slots"));
    const std::shared_ptr<store::ChunkSource> source = chunk_stack(store, settings_, meter_);
    fuse::SessionOptions options;
    options.threads = static_cast<unsigned>(settings_.threads);
    options.request_deadline = settings_.read_deadline;
    options.read_ahead_kb = static_cast<unsigned>(settings_.read_ahead_kb);
    MountedNames plain = TRY(plain_.start(settings_.dir / "mnt", source, options));
    options.xattrs = fuse::SessionOptions::Xattrs::yes;
    MountedNames with_xattrs = TRY(with_xattrs_.start(settings_.dir / "mnt-xattr", source, options));
    attachments_ = std::make_unique<Attachments>(store, std::move(layers), std::move(slots), std::move(plain),
                                                 std::move(with_xattrs));
    server_ = std::make_unique<ControlServer>(TRY(control::listen_on(settings_.dir / "control")), handlers());
    return {};
  }

  std::map<std::string, ControlServer::Handler> handlers() {
    using Peer = ControlServer::Peer;
    return {{"attach", [this](const Json& request, Peer& peer) { return attach(request, peer); }},
            {"detach",
             [this](const Json& request, Peer&) -> Result<Json> {
               attachments_->detach(TRY(json_text(request, "owner")));
               return Json::object();
             }},
            {"usage", [this](const Json& request, Peer&) { return usage(request); }},
            {"status", [this](const Json&, Peer&) -> Result<Json> { return status(); }},
            {"stop", [this](const Json& request, Peer&) { return stop(request); }}};
  }

  Result<Json> attach(const Json& request, ControlServer::Peer& peer) {
    const Digest env = TRY(Digest::parse(TRY(json_text(request, "env"))));
    const std::string view = TRY(json_text(request, "view"));
    const auto xattr_view = view == "overlay" ? format::XattrView::overlay : format::XattrView::plain;
    const std::string owner = TRY(json_text(request, "owner"));
    const bool leased = TRY(json_bool(request, "leased"));
    const Attachment made = TRY(attachments_->attach(env, xattr_view, owner));
    if (leased) peer.at_end.push_back([this, owner] { attachments_->detach(owner); });
    return Json{{"path", made.path.native()}, {"has_xattrs", made.has_xattrs}};
  }

  Result<Json> usage(const Json& request) {
    const Digest env = TRY(Digest::parse(TRY(json_text(request, "env"))));
    const Attachments::Usage usage = TRY(attachments_->usage(env));
    return Json{{"store_bytes", usage.store_bytes}, {"read_bytes", usage.read_bytes}, {"reads", usage.reads}};
  }

  Json status() {
    return {
        {"pid", ::getpid()},
        {"version", DSEC_VERSION},
        {"store", settings_.store.native()},
        {"attached", attachments_->describe()},
        {"fetches", meter_->fetches.get()},
        {"fetch_failures", meter_->failures.get()},
        {"store_bytes", meter_->store_bytes.get()},
        {"requests",
         {{"mnt", counts_of(plain_.session().counts())}, {"mnt-xattr", counts_of(with_xattrs_.session().counts())}}}};
  }

  Result<Json> stop(const Json& request) {
    const bool force = TRY(json_bool(request, "force"));
    const std::vector<std::string> owners = attachments_->owners();
    if (!force && !owners.empty()) {
      return fail(ErrorCode::exists, "in use by {}; end them first, or stop with --force", fmt::join(owners, ", "));
    }
    server_->stop();
    return Json::object();
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
    const struct timespec period { 0, 250000000 };
    while (!done_) {
      const bool signalled = ::sigtimedwait(&set, nullptr, &period) > 0;
      const bool idle = settings_.idle_exit.count() > 0 && attachments_->idle_for() >= settings_.idle_exit;
      if (signalled || idle) server_->stop();
    }
  }

  void tell_ready() {
    if (settings_.ready_fd < 0) return;
    const Fd ready(settings_.ready_fd);
    [[maybe_unused]] const auto ignored = write_all(ready, as_bytes("1"));  // nobody may be waiting any more
  }

  Settings settings_;
  std::shared_ptr<store::FetchMeter> meter_ = std::make_shared<store::FetchMeter>();
  ServedMount plain_;
  ServedMount with_xattrs_;
  std::unique_ptr<Attachments> attachments_;
  std::unique_ptr<ControlServer> server_;
  std::atomic<bool> done_ = false;
};

}  // namespace

Result<void> run_daemon(const Settings& settings) { return Daemon(settings).run(); }

}  // namespace dsec::daemon
