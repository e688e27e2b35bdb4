// SPDX-License-Identifier: Apache-2.0
#include "control/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "base/lock_file.h"
#include "base/paths.h"
#include "base/process.h"
#include "control/complaint.h"
#include "control/wire.h"

namespace dsec::control {

namespace fs = std::filesystem;

namespace {

constexpr int kStartTimeoutMs = 20000;
// While lazyfsd is started again its keeper holds the socket, and connections wait there; nobody listens only when both
// are gone.
constexpr std::chrono::milliseconds kRefusedPatience{2000};
constexpr std::chrono::milliseconds kRefusedPause{20};
constexpr int kMaxReconnects = 100;  // of one call: a lazyfsd that dies of each request must not keep us for ever
constexpr std::chrono::milliseconds kUpgradePatience{90000};  // a keeper's own bounds are shorter
constexpr std::chrono::milliseconds kConnectPatience{10000};
// Attaching reads the metadata of all layers from the store, for example.
constexpr std::chrono::milliseconds kStorePatience{120000};
constexpr std::array<std::string_view, 5> kOfStore{"attach", "prefetch", "store_trace", "evict", "usage"};

// Starts a keeper in a session of its own and waits until its lazyfsd serves: it then closes the pipe after one byte.
Result<void> start_daemon(const fs::path& store, const fs::path& dir) {
  Pipe ready = TRY(make_pipe());
  const fs::path log_path = dir / "lazyfsd.log";
  const Fd null = TRY(open_file("/dev/null", O_RDWR));
  const Fd log = TRY(open_file(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600));
  const auto said_before = static_cast<std::uint64_t>(TRY(stat_fd(log)).st_size);
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
  if (!good) {
    const std::string reason = last_complaint(log_path, said_before);
    return fail(ErrorCode::unavailable, "lazyfsd did not start{}{}; its log is {}", reason.empty() ? "" : ": ", reason,
                log_path.native());
  }
  child.detach();
  return {};
}

fs::path daemons() { return runtime_dir() / "lazyfs"; }
std::string name_of_dir(const fs::path& real) { return sha256(as_bytes(real.native())).brief(); }

// A path as it is written: two of these may be one store.
fs::path spelled(const fs::path& store) {
  std::error_code error;
  const fs::path absolute = fs::absolute(store, error);
  std::string text = (error ? store : absolute).lexically_normal().native();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// Where the daemon of a store is, and how that is known.
struct Whereabouts {
  fs::path dir;
  bool store_answers = false;
};

// Symlinks "by-NAME" in the directory of all daemons: what a spelling with symlinks in it led to.
fs::path spelling_path(const fs::path& spelling) { return daemons() / fmt::format("by-{}", name_of_dir(spelling)); }

Whereabouts find_dir(const fs::path& store) {
  const fs::path spelling = spelled(store);
  const auto resolve = [&spelling]() -> std::string {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(spelling, error);
    return error ? spelling.native() : real.native();
  };
  if (const auto real = ask_apart(resolve, kResolvePatience); real && !real->empty()) {
    return {daemons() / name_of_dir(*real), true};
  }
  std::error_code error;
  const fs::path known = fs::read_symlink(spelling_path(spelling), error);
  return {daemons() / (error ? name_of_dir(spelling) : known.native()), false};
}

// For when the store does not answer. Whoever cannot write there has to do without.
void remember_spelling(const fs::path& store, const fs::path& dir) {
  const fs::path spelling = spelled(store);
  const std::string name = dir.filename();
  if (name == name_of_dir(spelling)) return;
  const fs::path link = spelling_path(spelling);
  std::error_code error;
  if (fs::read_symlink(link, error) == name && !error) return;
  const fs::path ours = fmt::format("{}.{}", link.native(), ::getpid());
  fs::create_symlink(name, ours, error);
  if (!error) fs::rename(ours, link, error);
}

Result<Fd> knock(const fs::path& dir) {
  return connect_to(dir / "control", static_cast<int>(kConnectPatience.count()));
}

// One starter at a time; who waited finds the daemon running.
Result<Fd> start_and_connect(const fs::path& store, const fs::path& dir) {
  TRY(make_dirs(dir));
  // Images have set-user-ID programs and secrets of their own: host users have no business in the mounts.
  if (::chmod(dir.c_str(), 0700) != 0) return fail_sys(errno, fmt::format("chmod {}", dir.native()));
  const LockFile lock = TRY(LockFile::wait_for(dir / "start.lock"));
  auto connected = knock(dir);
  if (connected || connected.error().code != ErrorCode::unavailable) return connected;
  TRY(start_daemon(store, dir));
  return knock(dir);
}

}  // namespace

fs::path daemon_dir(const fs::path& store) { return find_dir(store).dir; }

Result<Client> Client::connect(const fs::path& store, Start start) {
  const Whereabouts found = find_dir(store);
  auto connected = knock(found.dir);
  const bool none_runs = !connected && connected.error().code == ErrorCode::unavailable;
  if (none_runs && start == Start::on_demand) {
    if (!found.store_answers) return fail(ErrorCode::timeout, "the store {} does not answer", store.native());
    connected = start_and_connect(store, found.dir);
  }
  if (!connected && none_runs) return tl::unexpected(connected.error().within("lazyfsd does not run"));
  if (!connected) return tl::unexpected(connected.error());
  if (found.store_answers) remember_spelling(store, found.dir);
  return Client(found.dir / "control", std::move(*connected));
}

Result<Client> Client::connect_in(const fs::path& dir) {
  auto connected = knock(dir);
  if (!connected) return tl::unexpected(connected.error().within("lazyfsd does not run"));
  return Client(dir / "control", std::move(*connected));
}

// The reply, whatever it says; an error is one of the connection.
Result<Json> Client::exchange(const Json& request, Fd* passed) {
  const std::string op = request.value("op", "");
  const bool waits_for_store = std::find(kOfStore.begin(), kOfStore.end(), op) != kOfStore.end();
  const auto patience = waits_for_store ? kStorePatience : kLookPatience;
  TRY(send_message(socket_, request));
  auto reply = receive_message(socket_, rest_, static_cast<int>(patience.count()), passed);
  if (reply || reply.error().code != ErrorCode::timeout) return reply;
  socket_.reset();  // an answer that comes later is none to the next request
  return fail(ErrorCode::timeout, "lazyfsd has not answered \"{}\" within {} s: it waits for {}; its log is {}", op,
              patience.count() / 1000, waits_for_store ? "the store" : "a successor, or hangs",
              (path_.parent_path() / "lazyfsd.log").native());
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
    auto socket = knock(path_.parent_path());
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
    auto answer = status();
    if (!answer && answer.error().code == ErrorCode::timeout) continue;  // its start takes long
    const Json now = TRY(std::move(answer));
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
