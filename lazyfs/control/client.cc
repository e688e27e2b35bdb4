// SPDX-License-Identifier: Apache-2.0
#include "control/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/lock_file.h"
#include "base/paths.h"
#include "base/process.h"
#include "control/wire.h"

namespace dsec::control {

namespace {

constexpr int kStartTimeoutMs = 20000;
// While lazyfsd is started again its keeper holds the socket, and connections wait there; nobody listens only when both
// are gone.
constexpr std::chrono::milliseconds kRefusedPatience{2000};
constexpr std::chrono::milliseconds kRefusedPause{20};
constexpr int kMaxReconnects = 100;  // of one call: a lazyfsd that dies of each request must not keep us for ever
constexpr std::chrono::milliseconds kUpgradePatience{90000};  // a keeper's own bounds are shorter
constexpr int kReplyTimeoutMs = 120000;  // attaching reads the metadata of all layers from the store

// Starts a keeper in a session of its own and waits until its lazyfsd serves: it then closes the pipe after one byte.
Result<void> start_daemon(const std::filesystem::path& store, const std::filesystem::path& dir) {
  Pipe ready = TRY(make_pipe());
  const std::filesystem::path log_path = dir / "lazyfsd.log";
  const Fd null = TRY(open_file("/dev/null", O_RDWR));
  const Fd log = TRY(open_file(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600));
  SpawnOptions options;
  options.argv = {
      sibling_program("lazyfs-keeper").native(), "--store", store.native(), "--dir", dir.native(), "--ready-fd", "3"};
  options.fds = {{null.get(), 0}, {null.get(), 1}, {log.get(), 2}, {ready.write_end.get(), 3}};
  options.session = SpawnOptions::Session::own;
  ChildProcess child = TRY(ChildProcess::spawn(options));
  ready.write_end.reset();
  struct pollfd polled {
    ready.read_end.get(), POLLIN, 0
  };
  const bool answered = ::poll(&polled, 1, kStartTimeoutMs) > 0;
  char byte = 0;
  const bool good = answered && ::read(ready.read_end.get(), &byte, 1) == 1;
  if (!good) return fail(ErrorCode::unavailable, "lazyfsd did not start; its log is {}", log_path.native());
  child.detach();
  return {};
}

}  // namespace

std::filesystem::path daemon_dir(const std::filesystem::path& store) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(store, error);
  return runtime_dir() / "lazyfs" / sha256(as_bytes(error ? store.native() : real.native())).brief();
}

Result<Client> Client::connect(const std::filesystem::path& store, Start start) {
  const std::filesystem::path dir = daemon_dir(store);
  const std::filesystem::path socket = dir / "control";
  auto connected = connect_to(socket);
  if (!connected && start == Start::on_demand) {
    TRY(make_dirs(dir));
    // Images have set-user-ID programs and secrets of their own: host users have no business in the mounts.
    if (::chmod(dir.c_str(), 0700) != 0) return fail_sys(errno, fmt::format("chmod {}", dir.native()));
    // One starter at a time; who waited finds the daemon running.
    const LockFile lock = TRY(LockFile::wait_for(dir / "start.lock"));
    connected = connect_to(socket);
    if (!connected) {
      TRY(start_daemon(store, dir));
      connected = connect_to(socket);
    }
  }
  if (!connected) return tl::unexpected(connected.error().within("lazyfsd does not run"));
  return Client(socket, std::move(*connected));
}

Result<Client> Client::connect_in(const std::filesystem::path& dir) {
  const std::filesystem::path socket = dir / "control";
  auto connected = connect_to(socket);
  if (!connected) return tl::unexpected(connected.error().within("lazyfsd does not run"));
  return Client(socket, std::move(*connected));
}

// The reply, whatever it says; an error is one of the connection.
Result<Json> Client::exchange(const Json& request, Fd* passed) {
  TRY(send_message(socket_, request));
  return receive_message(socket_, rest_, kReplyTimeoutMs, passed);
}

Result<Json> Client::call(const Json& request, Fd* passed) {
  for (int again = 0;; ++again) {
    auto reply = exchange(request, passed);
    if (reply) return reply_or_error(std::move(*reply));
    if (reply.error().code != ErrorCode::unavailable || again == kMaxReconnects) return reply;
    TRY(reconnect());
  }
}

Result<void> Client::reconnect() {
  const auto until = std::chrono::steady_clock::now() + kRefusedPatience;
  while (true) {
    rest_.clear();
    auto socket = connect_to(path_);
    if (!socket) {
      if (std::chrono::steady_clock::now() >= until) return tl::unexpected(socket.error().within("lazyfsd is gone"));
      std::this_thread::sleep_for(kRefusedPause);
      continue;
    }
    socket_ = std::move(*socket);
    for (const auto& [owner, request] : leases_) {
      auto reply = exchange(request, nullptr);
      if (!reply && reply.error().code == ErrorCode::unavailable) break;  // gone again: the next exchange finds out
      TRY(reply_or_error(TRY(std::move(reply))));
    }
    return {};
  }
}

namespace {

const char* name_of(RootfsMode mode) {
  switch (mode) {
    case RootfsMode::automatic: return "auto";
    case RootfsMode::tree: return "tree";
    case RootfsMode::objects: return "objects";
  }
  return "tree";
}

const char* name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::other: return "other";
    case Purpose::look: return "look";
    case Purpose::run: return "run";
    case Purpose::record: return "record";
  }
  return "other";
}

FetchProgress::State state_of(const std::string& name) {
  using State = FetchProgress::State;
  if (name == "waiting" || name == "running") return State::running;
  if (name == "done") return State::done;
  if (name == "failed") return State::failed;
  if (name == "stopped") return State::stopped;
  return name == "needless" ? State::needless : State::unknown;
}

Json fetch_request(const char* op, const Digest& env, Fetch what) {
  return {{"op", op}, {"env", env.hex()}, {"what", what == Fetch::all ? "all" : "trace"}};
}

Result<FetchProgress> progress_of(const Json& reply) {
  FetchProgress progress;
  progress.state = state_of(TRY(json_text(reply, "state")));
  progress.planned_bytes = TRY(or_default(json_uint(reply, "bytes_planned"), std::uint64_t{0}));
  progress.done_bytes = TRY(or_default(json_uint(reply, "bytes_done"), std::uint64_t{0}));
  progress.fetched_bytes = TRY(or_default(json_uint(reply, "bytes_fetched"), std::uint64_t{0}));
  progress.reason = TRY(or_default(json_text(reply, "reason"), std::string()));
  return progress;
}

}  // namespace

Result<AttachedTree> Client::attach(const Digest& env, TreeView view, const std::string& owner, Lease lease,
                                    RootfsMode mode, Purpose purpose) {
  AttachedTree tree;
  const char* shown = view == TreeView::overlay ? "overlay" : "plain";
  Json request = {{"op", "attach"},
                  {"env", env.hex()},
                  {"view", purpose == Purpose::record ? "record" : shown},
                  {"purpose", name_of(purpose)},
                  {"owner", owner},
                  {"leased", lease == Lease::with_connection},
                  {"rootfs_mode", name_of(mode)}};
  const Json reply = TRY(call(request, &tree.objects_root));
  if (lease == Lease::with_connection) {
    request["rootfs_mode"] = name_of(RootfsMode::tree);  // the root is there already
    request["purpose"] = name_of(Purpose::other);        // half a recording is none
    leases_[owner] = std::move(request);
  }
  tree.path = TRY(json_text(reply, "path"));
  tree.has_xattrs = TRY(json_bool(reply, "has_xattrs"));
  tree.why_not = TRY(json_text(reply, "why_not"));
  tree.recorded = TRY(or_default(json_bool(reply, "recorded"), false));
  return tree;
}

Result<void> Client::detach(const std::string& owner) {
  leases_.erase(owner);
  TRY(call({{"op", "detach"}, {"owner", owner}}));
  return {};
}

Result<TreeUsage> Client::usage(const Digest& env) {
  const Json reply = TRY(call({{"op", "usage"}, {"env", env.hex()}}));
  return TreeUsage{TRY(json_uint(reply, "store_bytes")), TRY(json_uint(reply, "read_bytes")),
                   TRY(json_uint(reply, "reads"))};
}

Result<StoredTrace> Client::store_trace(const std::string& owner) {
  const Json reply = TRY(call({{"op", "store_trace"}, {"owner", owner}}));
  StoredTrace trace;
  trace.stored = TRY(json_bool(reply, "stored"));
  trace.reason = TRY(json_text(reply, "reason"));
  if (!trace.stored) return trace;
  trace.chunks = TRY(json_uint(reply, "chunks"));
  trace.stored_bytes = TRY(json_uint(reply, "stored_bytes"));
  return trace;
}

Result<FetchProgress> Client::prefetch(const Digest& env, Fetch what) {
  return progress_of(TRY(call(fetch_request("prefetch", env, what))));
}

Result<FetchProgress> Client::prefetch_progress(const Digest& env, Fetch what) {
  return progress_of(TRY(call(fetch_request("prefetch_progress", env, what))));
}

Result<Json> Client::status() { return call({{"op", "status"}}); }

Result<Upgrade> Client::upgrade() {
  const Json before = TRY(status());
  const Json keeper = TRY_IN("lazyfsd has no keeper", json_object(before, "keeper"));
  const std::uint64_t restarts = TRY(json_uint(keeper, "restarts"));
  TRY(call({{"op", "upgrade"}}));
  const auto until = std::chrono::steady_clock::now() + kUpgradePatience;
  while (std::chrono::steady_clock::now() < until) {
    const Json now = TRY(status());
    const Json kept = TRY(json_object(now, "keeper"));
    if (TRY(json_uint(kept, "restarts")) > restarts) {
      const std::string reason = TRY(json_text(kept, "last_reason"));
      return Upgrade{TRY(json_text(before, "version")), TRY(json_text(now, "version")),
                     reason == "upgrade" ? std::string() : reason};
    }
    std::this_thread::sleep_for(kRefusedPause);
  }
  return fail(ErrorCode::timeout, "no other lazyfsd took over within {} s", kUpgradePatience.count() / 1000);
}

Result<void> Client::stop(Force force) {
  // Who ends last, the keeper, is watched from before, lest its number be another process's afterwards.
  const Json before = TRY(status());
  const auto keeper = before.find("keeper");
  const bool kept = keeper != before.end() && keeper->is_object() && !keeper->value("pid", Json()).is_null();
  const std::int64_t pid = TRY(json_int(kept ? *keeper : before, "pid"));
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  TRY(call({{"op", "stop"}, {"force", force == Force::yes}}));
  socket_.reset();
  struct pollfd ended {
    process.get(), POLLIN, 0
  };
  if (process.valid()) ::poll(&ended, 1, static_cast<int>(kStopPatience.count()));
  return {};
}

}  // namespace dsec::control
