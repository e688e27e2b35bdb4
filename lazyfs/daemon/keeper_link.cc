// SPDX-License-Identifier: Apache-2.0
#include "daemon/keeper_link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/paths.h"

namespace dsec::daemon {

using control::Signal;

namespace {

constexpr std::chrono::milliseconds kBeforeReplacing{2000};
constexpr int kMaxTries = 5;                   // in a row
constexpr std::chrono::minutes kLivesLong{1};  // a keeper that did is no failed try

Result<Fd> copy_of(const Fd& fd) {
  Fd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return fail_sys(errno, "copy a descriptor");
  return copy;
}

}  // namespace

Result<std::unique_ptr<KeeperLink>> KeeperLink::take() {
  for (int fd = control::kHandoverFd; fd <= control::kProgramFd; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const Fd program(control::kProgramFd);  // has done its work
  auto handover = TRY(control::read_handover(Fd(control::kHandoverFd)));
  auto link = std::unique_ptr<KeeperLink>(new KeeperLink(std::move(handover), Fd(control::kChannelFd)));
  link->listener_ = Fd(control::kListenerFd);
  link->lock_ = Fd(control::kLockFd);
  link->devices_[0] = Fd(control::kPlainMountFd);
  link->devices_[1] = Fd(control::kXattrMountFd);
  return link;
}

Result<fuse::Device> KeeperLink::device(std::size_t which) const {
  return fuse::Device{handover_.mountpoints[which], TRY(copy_of(devices_[which])), handover_.inits[which]};
}

Result<Fd> KeeperLink::listener() const { return copy_of(listener_); }

void KeeperLink::tell(Signal signal) {
  const std::lock_guard lock(mutex_);
  if (!channel_.valid()) return;
  if (!control::send_signal(channel_, signal)) lose_keeper();
}

void KeeperLink::tell_of_rings() {
  {
    const std::lock_guard lock(mutex_);
    handover_.has_rings = true;
  }
  tell(Signal::rings);
}

int KeeperLink::channel() const {
  const std::lock_guard lock(mutex_);
  return channel_.get();
}

KeeperLink::News KeeperLink::news() {
  const std::lock_guard lock(mutex_);
  if (!channel_.valid()) {
    replace_keeper();
    return News::none;
  }
  char byte = 0;
  const ssize_t n = ::recv(channel_.get(), &byte, 1, MSG_DONTWAIT);
  if (n == 1) return static_cast<Signal>(byte) == Signal::stop ? News::stop : News::none;
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    lose_keeper();
    return News::none;
  }
  if (const auto now = Clock::now(); now - last_beat_ >= std::chrono::milliseconds(control::kBeatPeriodMs)) {
    last_beat_ = now;
    if (!control::send_signal(channel_, Signal::beat)) lose_keeper();
  }
  return News::none;
}

void KeeperLink::lose_keeper() {
  channel_.reset();
  handover_.last_reason = fmt::format("its keeper {} died", handover_.keeper);
  next_try_ = Clock::now() + kBeforeReplacing;
  if (Clock::now() - keeper_since_ >= kLivesLong) tries_ = 0;
  keeper_.reset();  // reaps one of ours
  log(LogLevel::warn, "keeper_died", {{"pid", std::to_string(handover_.keeper)}});
}

void KeeperLink::replace_keeper() {
  if (tries_ >= kMaxTries || Clock::now() < next_try_) return;
  ++tries_;
  next_try_ = Clock::now() + kBeforeReplacing;
  if (const auto started = start_keeper(); !started) {
    log(LogLevel::error, "keeper_not_replaced", {{"reason", started.error().message}});
  }
}

Result<void> KeeperLink::start_keeper() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return fail_sys(errno, "make a channel");
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  control::Handover given = handover_;
  given.daemon = ::getpid();
  const Fd document = TRY(control::write_handover(given));
  const Fd program = TRY(open_file("/proc/self/exe", O_PATH));
  SpawnOptions options;
  options.argv = {sibling_program("lazyfs-keeper").native(), "--adopt"};
  options.session = SpawnOptions::Session::own;
  options.fds = {{document.get(), control::kHandoverFd},
                 {listener_.get(), control::kListenerFd},
                 {lock_.get(), control::kLockFd},
                 {theirs.get(), control::kChannelFd},
                 {devices_[0].get(), control::kPlainMountFd},
                 {devices_[1].get(), control::kXattrMountFd},
                 {program.get(), control::kProgramFd}};
  keeper_.emplace(TRY(ChildProcess::spawn(options)));
  handover_.keeper = keeper_->pid();
  keeper_since_ = Clock::now();
  channel_ = std::move(ours);
  return {};
}

Json KeeperLink::describe() const {
  const std::lock_guard lock(mutex_);
  return {{"pid", channel_.valid() ? Json(handover_.keeper) : Json()},
          {"restarts", handover_.restarts},
          {"last_reason", handover_.last_reason}};
}

pid_t KeeperLink::last_to_end() const {
  const std::lock_guard lock(mutex_);
  return channel_.valid() ? handover_.keeper : ::getpid();
}

}  // namespace dsec::daemon
