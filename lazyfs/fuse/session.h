// SPDX-License-Identifier: Apache-2.0
// A tree::Namespace as a FUSE file system. The only folder that knows libfuse.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/metrics.h"
#include "base/result.h"
#include "fuse/device.h"
#include "fuse/observe.h"
#include "tree/namespace.h"

namespace dsec::fuse {

// Requests that the kernel sent, by kind: what caching saves is seen here.
struct RequestCounts {
  Counter lookup, getattr, readlink, read, lseek, readdir, readdirplus, getxattr, listxattr, statfs, open;
};

// How requests come from the kernel. Through io_uring each is served on its caller's processor, which costs a fraction
// of the time, but nobody can go on after the server: a crash ends the mount (docs/decisions/0015).
enum class Transport : std::uint8_t { device, io_uring };

struct SessionOptions {
  // Answer xattr requests. `no`: the first one is answered ENOSYS and the kernel never asks again; overlayfs asks for
  // xattrs on every cold lookup, so an environment without any belongs on a mount that has none.
  enum class Xattrs { no, yes } xattrs = Xattrs::no;
  unsigned threads = 4;
  // io_uring: where try_rings() says that it works, and not with a connection that a predecessor has answered INIT on;
  // otherwise /dev/fuse, with a line in the log.
  Transport transport = Transport::device;
  // A read that has no answer by then gets EIO, whatever its thread is stuck in.
  std::chrono::milliseconds request_deadline{60000};
  unsigned read_ahead_kb = 1024;
  // How long a thread polls for the next request before it sleeps, while requests follow each other that closely; 0:
  // never. See docs/performance.md.
  std::chrono::microseconds busy_poll{50};
  // Requests that a predecessor on the same device took and did not answer.
  enum class InFlight {
    none,    // there are none, or the kernel cannot send them again
    serve,   // are asked for again, and served
    refuse,  // are asked for again, and answered EIO: one of them may be what its predecessors died of
  } in_flight = InFlight::none;
  // Gets an event for each answer; null: nobody.
  std::shared_ptr<RequestTap> tap = nullptr;
  // For user.lazyfs.cached; null: there is no such xattr.
  tree::Whereabouts where = nullptr;
};

// One mounted (or, for tests, connected) session. Everything is cached by the kernel for as long as it likes: the tree
// is immutable. Kernel references: fs/fuse/{dir,file,readdir}.c; the flags are explained in docs/architecture.md.
class Session {
 public:
  virtual ~Session() = default;

  // Mounts on an existing directory, read-only, for all users, with the kernel checking permissions. Needs root or
  // fusermount3. `names` is shared with whoever attaches environments.
  static Result<std::unique_ptr<Session>> mount(std::shared_ptr<const tree::Namespace> names,
                                                const std::filesystem::path& mountpoint, SessionOptions options);
  // Serves a device that a keeper mounted; a predecessor may have served it. What INIT settled stays as the first
  // server settled it. `unsupported` when in-flight requests are wanted and the kernel cannot send them again.
  static Result<std::unique_ptr<Session>> go_on(std::shared_ptr<const tree::Namespace> names, Device device,
                                                SessionOptions options);
  // Speaks the protocol over a connected descriptor (a SOCK_SEQPACKET socket) instead of /dev/fuse.
  static Result<std::unique_ptr<Session>> connect(std::shared_ptr<const tree::Namespace> names, Fd fd,
                                                  SessionOptions options);

  // Serves requests on its threads until the file system is unmounted or the peer hangs up. Call once.
  virtual Result<void> run() = 0;
  // Unmounts and makes run() return. Who still uses the mount gets ENOTCONN: nobody is left waiting. From any thread.
  virtual void unmount() = 0;
  // Takes no more requests, answers those taken and makes run() return; the mount stays for a successor, and so do
  // requests that come meanwhile; not with io_uring, where the mount is of no more use. `no` when some are still not
  // answered after `patience`: run() returns with the last. From any thread.
  enum class Drained { no, yes };
  virtual Drained drain(std::chrono::milliseconds patience) = 0;
  // Makes the kernel forget a name in the root, after its environment was detached.
  virtual void forget_root_entry(const std::string& name) = 0;

  // The one in use.
  [[nodiscard]] virtual Transport transport() const = 0;
  [[nodiscard]] virtual const RequestCounts& counts() const = 0;
  [[nodiscard]] virtual const RequestStats& stats() const = 0;
  // Requests that may wait for the store, oldest first. Those that only look at metadata on this node are not listed.
  [[nodiscard]] virtual std::vector<dsec::fuse::InFlight> requests_in_flight() const = 0;
};

}  // namespace dsec::fuse
