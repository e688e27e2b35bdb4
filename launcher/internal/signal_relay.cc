// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/signal_relay.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/guarded.h"

namespace dsec::launcher {

namespace {

constexpr std::array kForwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

// Where the handler writes; -1 when no relay lives. The pipe itself is made once and never closed, so that a handler
// that still runs never writes to a descriptor that means something else by now.
std::atomic<int> handler_pipe{-1};

void on_signal(int number) {
  const int saved = errno;
  const auto byte = static_cast<char>(number);
  [[maybe_unused]] const ssize_t ignored = ::write(handler_pipe.load(std::memory_order_relaxed), &byte, 1);
  errno = saved;
}

struct Relays {
  std::vector<int> controls;
  std::array<struct sigaction, kForwarded.size()> before{};
};

Guarded<Relays>& relays() {
  static auto* instance = new Guarded<Relays>();  // outlives the reading thread
  return *instance;
}

void pass_on(int read_end) {
  char byte = 0;
  while (true) {
    const ssize_t n = ::read(read_end, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    auto locked = relays().lock();
    for (const int control : locked->controls) ::send(control, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

// The pipe and the thread that reads it, for the life of the process.
Result<void> start_reader() {
  if (handler_pipe.load() >= 0) return {};
  Pipe pipe = TRY(make_pipe());
  ::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread takes no signal away from the others
  std::thread(pass_on, pipe.read_end.release()).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  handler_pipe.store(pipe.write_end.release());
  return {};
}

void install(Relays& state) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kForwarded.size(); ++i) {
    ::sigaction(kForwarded[i], nullptr, &state.before[i]);
    if (state.before[i].sa_handler != SIG_IGN) ::sigaction(kForwarded[i], &action, nullptr);
  }
}

void put_back(const Relays& state) {
  for (std::size_t i = 0; i < kForwarded.size(); ++i) ::sigaction(kForwarded[i], &state.before[i], nullptr);
}

}  // namespace

Result<SignalRelay> SignalRelay::to(int control) {
  auto locked = relays().lock();
  TRY(start_reader());
  if (locked->controls.empty()) install(*locked);
  locked->controls.push_back(control);
  return SignalRelay(control);
}

SignalRelay::~SignalRelay() {
  if (control_ < 0) return;
  auto locked = relays().lock();
  std::erase(locked->controls, control_);
  if (locked->controls.empty()) put_back(*locked);
}

}  // namespace dsec::launcher
