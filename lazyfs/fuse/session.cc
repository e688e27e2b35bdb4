// SPDX-License-Identifier: Apache-2.0
#include "fuse/session.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "fuse/internal/dispatcher.h"

namespace dsec::fuse {

namespace {

constexpr std::chrono::milliseconds kWatchPeriod{500};
constexpr std::size_t kMaxThreads = 64;  // replacements for stuck threads included

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

 private:
  fuse_buf buffer_{};
};

class SessionImpl final : public Session {
 public:
  SessionImpl(std::shared_ptr<const tree::Namespace> names, SessionOptions options)
      : options_(options), dispatcher_(std::move(names), options) {}

  ~SessionImpl() override {
    unmount();
    if (!mountpoint_.empty()) fuse_session_unmount(session_.get());  // cut already: this frees what libfuse keeps of it
  }

  Result<void> create() {
    const char* arguments[] = {"lazyfs", "-o", "ro,allow_other,default_permissions,fsname=lazyfs,subtype=lazyfs",
                               nullptr};
    fuse_args args{3, const_cast<char**>(arguments), 0};
    session_.reset(fuse_session_new(&args, &Dispatcher::operations(), sizeof(fuse_lowlevel_ops), &dispatcher_));
    fuse_opt_free_args(&args);
    if (!session_) return fail(ErrorCode::internal, "libfuse refused to make a session");
    return {};
  }

  Result<void> mount_on(const std::filesystem::path& mountpoint) {
    if (fuse_session_mount(session_.get(), mountpoint.c_str()) != 0) {
      return fail(ErrorCode::unsupported,
                  "cannot mount on {}: see the message above; `dsec doctor` tells what is missing",
                  mountpoint.native());
    }
    mounted_ = true;
    mountpoint_ = mountpoint;
    return {};
  }

  Result<void> use(Fd fd) {
    static const fuse_custom_io kIo = {
        .writev = [](int to, iovec* vectors, int count, void*) { return ::writev(to, vectors, count); },
        .read = [](int from, void* bytes, std::size_t size, void*) { return ::read(from, bytes, size); },
        .splice_receive = nullptr,
        .splice_send = nullptr,
    };
    const int error = fuse_session_custom_io(session_.get(), &kIo, fd.get());
    if (error != 0) return fail_sys(-error, "connect the FUSE session");
    fd.release();  // the session closes it
    return {};
  }

  Result<void> run() override {
    for (unsigned i = 0; i < options_.threads; ++i) start_worker();
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      ended_.wait_for(lock, kWatchPeriod);
      const std::size_t stuck = dispatcher_.watchdog().check(Watchdog::Clock::now());
      // Threads that hang in the store must not keep what is cached from being served.
      const bool serving = fuse_session_exited(session_.get()) == 0;
      while (serving && running_ < options_.threads + stuck && running_ < kMaxThreads) start_worker_locked();
      if (serving && mounted_ && !tuned_) tune_read_ahead(lock);
    }
    lock.unlock();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    return {};
  }

  void unmount() override {
    fuse_session_exit(session_.get());
    // With MNT_FORCE the connection is cut: threads that wait for requests return, and nobody waits for answers. (That
    // of libfuse closes the descriptor below the waiting threads.)
    if (mounted_.exchange(false)) ::umount2(mountpoint_.c_str(), MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW);
  }

  void forget_root_entry(const std::string& name) override {
    fuse_lowlevel_notify_inval_entry(session_.get(), FUSE_ROOT_ID, name.c_str(), name.size());
  }

  [[nodiscard]] const RequestCounts& counts() const override { return dispatcher_.counts(); }

 private:
  void start_worker() {
    const std::lock_guard lock(mutex_);
    start_worker_locked();
  }

  void start_worker_locked() {
    ++running_;
    workers_.emplace_back([this] {
      serve();
      const std::lock_guard lock(mutex_);
      --running_;
      ended_.notify_all();
    });
  }

  void serve() {
    RequestBuffer buffer;
    while (fuse_session_exited(session_.get()) == 0) {
      const int bytes = fuse_session_receive_buf(session_.get(), buffer.get());
      if (bytes == -EINTR || bytes == -EAGAIN) continue;
      if (bytes <= 0) break;  // unmounted, or the peer is gone
      fuse_session_process_buf(session_.get(), buffer.get());
    }
    fuse_session_exit(session_.get());
  }

  // INIT cannot raise the read-ahead above the bdi's 128 KiB; writing it afterwards does. stat() of the mount needs an
  // answer from our own threads, so it is done without the lock, once they run.
  void tune_read_ahead(std::unique_lock<std::mutex>& lock) {
    tuned_ = true;
    lock.unlock();
    struct stat st {};
    if (::stat(mountpoint_.c_str(), &st) == 0) {
      const std::string path = fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", major(st.st_dev), minor(st.st_dev));
      const std::string value = std::to_string(options_.read_ahead_kb);
      auto file = open_file(path, O_WRONLY);
      if (!file || !write_all(*file, as_bytes(value))) {
        log(LogLevel::debug, "read_ahead_not_set", {{"path", path}});
      }
    }
    lock.lock();
  }

  SessionOptions options_;
  Dispatcher dispatcher_;
  std::unique_ptr<fuse_session, SessionDeleter> session_;
  std::filesystem::path mountpoint_;
  std::atomic<bool> mounted_ = false;
  bool tuned_ = false;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t running_ = 0;           // guarded by mutex_
  std::vector<std::thread> workers_;  // guarded by mutex_
};

}  // namespace

Result<std::unique_ptr<Session>> Session::mount(std::shared_ptr<const tree::Namespace> names,
                                                const std::filesystem::path& mountpoint, SessionOptions options) {
  auto session = std::make_unique<SessionImpl>(std::move(names), options);
  TRY(session->create());
  TRY(session->mount_on(mountpoint));
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
