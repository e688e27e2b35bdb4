// SPDX-License-Identifier: Apache-2.0
#include "control/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/lock_file.h"
#include "base/paths.h"
#include "base/process.h"
#include "control/wire.h"

namespace dsec::control {

namespace {

constexpr int kStartTimeoutMs = 20000;
constexpr int kReplyTimeoutMs = 120000;  // attaching reads the metadata of all layers from the store

// Starts lazyfsd in a session of its own and waits until it serves: it then closes the pipe after one byte.
Result<void> start_daemon(const std::filesystem::path& store, const std::filesystem::path& dir) {
  Pipe ready = TRY(make_pipe());
  const std::filesystem::path log_path = dir / "lazyfsd.log";
  const Fd null = TRY(open_file("/dev/null", O_RDWR));
  const Fd log = TRY(open_file(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600));
  SpawnOptions options;
  options.argv = {
      sibling_program("lazyfsd").native(), "--store", store.native(), "--dir", dir.native(), "--ready-fd", "3"};
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
  return Client(std::move(*connected));
}

Result<Json> Client::call(const Json& request) {
  TRY(send_message(socket_, request));
  return reply_or_error(TRY(receive_message(socket_, rest_, kReplyTimeoutMs)));
}

Result<AttachedTree> Client::attach(const Digest& env, TreeView view, const std::string& owner, Lease lease) {
  const Json reply = TRY(call({{"op", "attach"},
                               {"env", env.hex()},
                               {"view", view == TreeView::overlay ? "overlay" : "plain"},
                               {"owner", owner},
                               {"leased", lease == Lease::with_connection}}));
  return AttachedTree{TRY(json_text(reply, "path")), TRY(json_bool(reply, "has_xattrs"))};
}

Result<void> Client::detach(const std::string& owner) {
  TRY(call({{"op", "detach"}, {"owner", owner}}));
  return {};
}

Result<TreeUsage> Client::usage(const Digest& env) {
  const Json reply = TRY(call({{"op", "usage"}, {"env", env.hex()}}));
  return TreeUsage{TRY(json_uint(reply, "store_bytes")), TRY(json_uint(reply, "read_bytes")),
                   TRY(json_uint(reply, "reads"))};
}

Result<Json> Client::status() { return call({{"op", "status"}}); }

Result<void> Client::stop(Force force) {
  struct ucred daemon {};
  socklen_t size = sizeof daemon;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &daemon, &size) != 0)
    return fail_sys(errno, "ask for the daemon's pid");
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, daemon.pid, 0)));
  TRY(call({{"op", "stop"}, {"force", force == Force::yes}}));
  socket_.reset();
  struct pollfd ended {
    process.get(), POLLIN, 0
  };
  if (process.valid()) ::poll(&ended, 1, static_cast<int>(kStopPatience.count()));
  return {};
}

}  // namespace dsec::control
