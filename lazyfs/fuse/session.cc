// SPDX-License-Identifier: Apache-2.0
#include "fuse/session.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/mount_table.h"
#include "fuse/internal/caller_follower.h"
#include "fuse/internal/dispatcher.h"
#include "fuse/internal/rings.h"
#include "fuse/internal/turns.h"
#include "fuse/internal/wire.h"
#include "fuse/rings.h"

namespace dsec::fuse {

namespace {

constexpr std::chrono::milliseconds kWatchPeriod{500};
constexpr std::chrono::milliseconds kKickPeriod{2};
constexpr unsigned kBacklog = 8;              // requests that wait already, in a row, before one more thread reads
constexpr std::size_t kMaxThreads = 64;       // replacements for stuck threads included
constexpr std::size_t kRoomBytes = 64 << 10;  // for a request from a ring; one of a read-only file system has a name
constexpr unsigned kMinRingThreads = 4;       // for each processor: some may wait for the store
constexpr int kKickSignal = SIGUSR1;          // interrupts a read(2) that waits for a request

struct SessionDeleter {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};

// Room for one request, as libfuse allocates it.
class RequestBuffer {
 public:
  RequestBuffer() = default;
  ~RequestBuffer() { std::free(buffer_.mem); }
  RequestBuffer(const RequestBuffer&) = delete;
  RequestBuffer& operator=(const RequestBuffer&) = delete;
  fuse_buf* get() { return &buffer_; }
  // The thread that the request in it is of.
  [[nodiscard]] pid_t caller() const {
    fuse_in_header header{};
    std::memcpy(&header, buffer_.mem, sizeof header);
    return static_cast<pid_t>(header.pid);
  }

 private:
  fuse_buf buffer_{};
};

// Where that is not allowed the thread serves from elsewhere, only slower.
void stay_on(unsigned processor) {
  if (processor >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) != 0) {
    log(LogLevel::debug, "thread_not_pinned", {{"processor", std::to_string(processor)}});
  }
}

// Makes the signal interrupt and do nothing else.
void prepare_kick_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ::sigaction(kKickSignal, &action, nullptr);
}

// "MAJOR:MINOR" of what is mounted there, without touching it.
std::string device_number_of(const std::filesystem::path& mountpoint) {
  std::string number;
  const auto mounts = read_mounts();
  if (!mounts) return number;
  for (const MountEntry& mount : *mounts) {
    if (mount.point == mountpoint.native()) number = mount.device;
  }
  return number;
}

class SessionImpl final : public Session {
  using Clock = std::chrono::steady_clock;

 public:
  SessionImpl(std::shared_ptr<const tree::Namespace> names, SessionOptions options)
      : options_(options),
        turns_(options.threads),
        spin_(std::thread::hardware_concurrency() > 1 ? options.busy_poll : std::chrono::microseconds(0)),
        wire_(options.in_flight == SessionOptions::InFlight::refuse ? Wire::Resent::refuse : Wire::Resent::serve),
        dispatcher_(std::move(names), options, wire_) {}

  ~SessionImpl() override {
    if (owns_mount_) unmount();
  }

  Result<void> create() {
    prepare_kick_signal();
    const char* arguments[] = {"lazyfs", nullptr};
    fuse_args args{1, const_cast<char**>(arguments), 0};
    session_.reset(fuse_session_new(&args, &Dispatcher::operations(), sizeof(fuse_lowlevel_ops), &dispatcher_));
    fuse_opt_free_args(&args);
    if (!session_) return fail(ErrorCode::internal, "libfuse refused to make a session");
    return {};
  }

  Result<void> mount_on(const std::filesystem::path& mountpoint) {
    Device device = TRY(mount_device(mountpoint));
    owns_mount_ = true;
    return begin_on(std::move(device));
  }

  // libfuse reads the INIT and answers it here, before there are threads; only then may requests come again.
  Result<void> begin_on(Device device) {
    const Fd copy(::fcntl(device.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return fail_sys(errno, "copy a descriptor");
    mountpoint_ = std::move(device.mountpoint);
    mounted_ = true;
    if (options_.transport == Transport::io_uring) choose_transport(device.init);
    TRY(use(std::move(device.fd)));
    wire_.give_init(std::move(device.init));
    RequestBuffer buffer;
    const int bytes = fuse_session_receive_buf(session_.get(), buffer.get());
    if (bytes > 0) fuse_session_process_buf(session_.get(), buffer.get());
    if (bytes <= 0 || fuse_session_exited(session_.get()) != 0) {
      return fail(ErrorCode::unsupported, "{}: libfuse does not understand this kernel's INIT", mountpoint_.native());
    }
    if (options_.in_flight != SessionOptions::InFlight::none) TRY(ask_again(copy));
    return {};
  }

  Result<void> use(Fd fd) {
    static const fuse_custom_io kIo = {
        .writev = [](int to, iovec* vectors, int count,
                     void* self) { return static_cast<Dispatcher*>(self)->wire().write(to, vectors, count); },
        .read = [](int from, void* bytes, std::size_t size,
                   void* self) { return static_cast<Dispatcher*>(self)->wire().read(from, bytes, size); },
        .splice_receive = nullptr,
        .splice_send = nullptr,
    };
    const int error = fuse_session_custom_io(session_.get(), &kIo, fd.get());
    if (error != 0) return fail_sys(-error, "connect the FUSE session");
    fd.release();  // the session closes it
    return {};
  }

  Result<void> run() override {
    if (transport_ == Transport::io_uring) start_ring_workers();
    // Beside rings the device only has what needs no answer.
    const unsigned readers = transport_ == Transport::io_uring ? 1 : options_.threads;
    for (unsigned i = 0; i < std::min<std::size_t>(readers, kMaxThreads); ++i) start_worker();
    if (mounted_) set_read_ahead();
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      ended_.wait_for(lock, leaving_ ? std::chrono::milliseconds(kKickPeriod) : kWatchPeriod);
      const std::size_t stuck = dispatcher_.watchdog().check(Watchdog::Clock::now());
      lend_turns(Clock::now());
      // Threads that hang in the store must not keep what is cached from being served.
      const bool serving = fuse_session_exited(session_.get()) == 0 && !leaving_;
      if (serving && transport_ == Transport::io_uring) replace_ring_workers();
      if (transport_ == Transport::device) {
        while (serving && running_ < readers + stuck && running_ < kMaxThreads) start_worker_locked();
      }
      if (leaving_) kick_workers();
    }
    lock.unlock();
    for (Worker& worker : workers_) worker.thread.join();
    workers_.clear();
    return {};
  }

  void unmount() override {
    fuse_session_exit(session_.get());
    // The connection is cut: threads that wait for requests return, and nobody waits for answers. Where we have no
    // right to cut, the threads are called back.
    if (mounted_.exchange(false)) unmount_device(mountpoint_);
    leave();
  }

  Drained drain(std::chrono::milliseconds patience) override {
    mounted_ = false;  // others go on with it
    leave();
    std::unique_lock lock(mutex_);
    const bool all = ended_.wait_for(lock, patience, [this] { return running_ == 0; });
    return all ? Drained::yes : Drained::no;
  }

  void forget_root_entry(const std::string& name) override {
    fuse_lowlevel_notify_inval_entry(session_.get(), FUSE_ROOT_ID, name.c_str(), name.size());
  }

  [[nodiscard]] Transport transport() const override { return transport_; }
  [[nodiscard]] const RequestCounts& counts() const override { return dispatcher_.counts(); }
  [[nodiscard]] const RequestStats& stats() const override { return dispatcher_.stats(); }
  [[nodiscard]] std::vector<InFlight> requests_in_flight() const override { return dispatcher_.requests_in_flight(); }

 private:
  struct Worker {
    std::atomic<bool> waiting = false;            // for a request
    std::atomic<Clock::time_point> busy_since{};  // with a request and the turn to read; zero when not
    bool lent = false;                            // guarded by mutex_, as is the next: another turn was made for it
    bool running = true;
    std::thread thread;
  };

  void leave() {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    turns_.stop();
    ended_.notify_all();
  }

  // A signal that comes just before the read is lost, hence again and again. With mutex_ held.
  void kick_workers() {
    for (Worker& worker : workers_) {
      if (worker.running && worker.waiting) ::pthread_kill(worker.thread.native_handle(), kKickSignal);
    }
  }

  void start_worker() {
    const std::lock_guard lock(mutex_);
    start_worker_locked();
  }

  void start_worker_locked() {
    start_thread_locked([this](Worker& worker) { serve(worker); });
  }

  template <typename Body>
  void start_thread_locked(Body body) {
    ++running_;
    Worker& worker = workers_.emplace_back();
    worker.thread = std::thread([this, &worker, body] {
      body(worker);
      const std::lock_guard lock(mutex_);
      worker.running = false;
      --running_;
      ended_.notify_all();
    });
  }

  void serve(Worker& worker) {
    RequestBuffer buffer;
    CallerFollower follower;
    while (fuse_session_exited(session_.get()) == 0 && turns_.take()) {
      Turn turn(turns_);
      follower.stop();  // others have read meanwhile
      while (turn.is_held() && fuse_session_exited(session_.get()) == 0) {
        const int bytes = receive(worker, buffer, turn, follower);
        if (bytes == -EINTR || bytes == -EAGAIN) {
          if (leaving_) return;
          continue;
        }
        if (bytes <= 0) return stop_serving();  // unmounted, or the peer is gone
        worker.busy_since = Clock::now();
        follower.note(buffer.caller());
        fuse_session_process_buf(session_.get(), buffer.get());
        worker.busy_since = Clock::time_point{};
      }
    }
    stop_serving();
  }

  // Before INIT is answered.
  void choose_transport(ByteView init) {
    if (const auto works = try_rings(init); !works) {
      log(LogLevel::warn, "transport_is_device", {{"reason", works.error().message}});
      return;
    }
    transport_ = Transport::io_uring;
    wire_.use_rings(rings_);
  }

  // The kernel holds requests back until there is a place for each processor.
  void start_ring_workers() {
    const unsigned queues = ring_queues();
    const unsigned present = std::max(1u, std::thread::hardware_concurrency());
    const unsigned each = std::max(kMinRingThreads, (options_.threads + present - 1) / present);
    for (unsigned queue = 0; queue < queues; ++queue) {
      for (unsigned i = 0; i < (queue < present ? each : 1); ++i) {
        rings_.add(std::make_unique<RingPlace>(queue, wire_.payload_bytes()));
      }
    }
    const std::lock_guard lock(mutex_);
    for (const auto& place : rings_.places()) start_ring_worker_locked(*place);
  }

  void start_ring_worker_locked(RingPlace& place) {
    start_thread_locked([this, &place](Worker& worker) { serve_ring(worker, place); });
  }

  // For places whose threads hang. With mutex_ held.
  void replace_ring_workers() {
    while (running_ < rings_.places().size() + kMaxThreads) {
      RingPlace* const place = rings_.take_lost();
      if (place == nullptr) return;
      start_ring_worker_locked(*place);
    }
  }

  void serve_ring(Worker& worker, RingPlace& place) {
    stay_on(place.queue());
    auto seat = RingSeat::create(fuse_session_fd(session_.get()));
    if (!seat) return fail_ring(seat.error().message);
    const auto room = std::make_unique_for_overwrite<std::uint8_t[]>(kRoomBytes);
    while (fuse_session_exited(session_.get()) == 0) {
      worker.waiting = true;
      if (leaving_) return;
      const int bytes = (*seat)->next(place, room.get(), kRoomBytes);
      worker.waiting = false;
      if (bytes == -EINTR) continue;
      if (bytes == -ENOTCONN || bytes == -ECANCELED) return stop_serving();  // unmounted
      if (bytes < 0) return fail_ring(std::generic_category().message(-bytes));
      fuse_buf request{};
      request.size = static_cast<std::size_t>(bytes);
      request.mem = room.get();
      request.fd = -1;
      rings_.begin(place);
      fuse_session_process_buf(session_.get(), &request);
      if (!rings_.end(place)) return;  // somebody else has the place
    }
  }

  // With a queue without places its callers would wait for ever.
  void fail_ring(const std::string& reason) {
    log(LogLevel::error, "ring_failed", {{"reason", reason}, {"path", mountpoint_.native()}});
    unmount();
  }

  void stop_serving() {
    if (leaving_ && fuse_session_exited(session_.get()) == 0) return;
    fuse_session_exit(session_.get());
    turns_.stop();
  }

  // As fuse_session_receive_buf(); -EAGAIN when the turn was given up instead, since others read as well.
  int receive(Worker& worker, RequestBuffer& buffer, Turn& turn, const CallerFollower& follower) {
    const Clock::time_point ready_at = Clock::now();
    // The next request of the one caller that is followed cannot come before we rest.
    if (!follower.is_following() && !poll_for_request(ready_at) && turn.give_up_if_spare()) return -EAGAIN;
    worker.waiting = true;
    if (leaving_) return -EINTR;
    const int bytes = fuse_session_receive_buf(session_.get(), buffer.get());
    worker.waiting = false;
    spin_.arrived(Clock::now() - ready_at);
    return bytes;
  }

  // Whether there is a request, after polling for as long as it pays. Requests that are there at once again and again
  // are more than one thread can serve.
  bool poll_for_request(Clock::time_point start) {
    pollfd polled{fuse_session_fd(session_.get()), POLLIN, 0};
    if (::poll(&polled, 1, 0) > 0) {
      if (++backlog_ % kBacklog == 0) turns_.widen();
      return true;
    }
    backlog_ = 0;
    const auto longest = spin_.now();
    if (longest.count() == 0 || spinning_.exchange(true)) return false;
    bool found = false;
    while (!found && Clock::now() - start < longest) found = ::poll(&polled, 1, 0) > 0;
    spinning_ = false;
    return found;
  }

  // Turns that are not given back in time hold up everybody: another thread gets one. With mutex_ held.
  void lend_turns(Clock::time_point now) {
    for (Worker& worker : workers_) {
      const Clock::time_point since = worker.busy_since;
      const bool is_late = since != Clock::time_point{} && now - since > kWatchPeriod;
      if (is_late && !worker.lent) turns_.lend();
      worker.lent = is_late;
    }
  }

  // INIT cannot raise the read-ahead above the bdi's 128 KiB; writing it afterwards does.
  void set_read_ahead() {
    const std::string path = fmt::format("/sys/class/bdi/{}/read_ahead_kb", device_number_of(mountpoint_));
    auto file = open_file(path, O_WRONLY);
    if (!file || !write_all(*file, as_bytes(std::to_string(options_.read_ahead_kb)))) {
      log(LogLevel::debug, "read_ahead_not_set", {{"path", path}});
    }
  }

  SessionOptions options_;
  Turns turns_;
  SpinBudget spin_;
  std::atomic<bool> spinning_ = false;       // one at a time
  std::atomic<unsigned> backlog_ = 0;        // requests that were there at once, one after the other
  Transport transport_ = Transport::device;  // set before there are threads
  Rings rings_;
  Wire wire_;
  Dispatcher dispatcher_;
  std::unique_ptr<fuse_session, SessionDeleter> session_;
  std::filesystem::path mountpoint_;
  bool owns_mount_ = false;
  std::atomic<bool> mounted_ = false;
  std::atomic<bool> leaving_ = false;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t running_ = 0;    // guarded by mutex_
  std::list<Worker> workers_;  // guarded by mutex_
};

}  // namespace

Result<std::unique_ptr<Session>> Session::mount(std::shared_ptr<const tree::Namespace> names,
                                                const std::filesystem::path& mountpoint, SessionOptions options) {
  auto session = std::make_unique<SessionImpl>(std::move(names), options);
  TRY(session->create());
  TRY(session->mount_on(mountpoint));
  return session;
}

Result<std::unique_ptr<Session>> Session::go_on(std::shared_ptr<const tree::Namespace> names, Device device,
                                                SessionOptions options) {
  auto session = std::make_unique<SessionImpl>(std::move(names), options);
  TRY(session->create());
  TRY(session->begin_on(std::move(device)));
  return session;
}

Result<std::unique_ptr<Session>> Session::connect(std::shared_ptr<const tree::Namespace> names, Fd fd,
                                                  SessionOptions options) {
  auto session = std::make_unique<SessionImpl>(std::move(names), options);
  TRY(session->create());
  TRY(session->use(std::move(fd)));
  return session;
}

}  // namespace dsec::fuse
