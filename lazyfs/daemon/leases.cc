// SPDX-License-Identifier: Apache-2.0
#include "daemon/leases.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.h"

namespace dsec::daemon {

std::optional<LeaseHolder> holder_of(pid_t pid) {
  const auto facts = facts_of_process(pid);
  if (!facts) return std::nullopt;
  return LeaseHolder{pid, facts->start_ticks};
}

void Leases::keep(const std::string& owner, const LeaseHolder& holder) {
  Fd process(static_cast<int>(::syscall(SYS_pidfd_open, holder.pid, 0)));
  const auto now = holder_of(holder.pid);
  if (!now || now->start_ticks != holder.start_ticks) process.reset();
  (*processes_.lock())[owner] = std::move(process);
}

void Leases::forget(const std::string& owner) { processes_.lock()->erase(owner); }

std::vector<std::string> Leases::ended() {
  std::vector<std::string> owners;
  auto processes = processes_.lock();
  std::vector<pollfd> polled;
  for (const auto& [owner, process] : *processes) polled.push_back({process.get(), POLLIN, 0});
  if (polled.empty()) return owners;
  ::poll(polled.data(), polled.size(), 0);
  std::size_t i = 0;
  for (auto it = processes->begin(); it != processes->end(); ++i) {
    if (polled[i].fd >= 0 && polled[i].revents == 0) {
      ++it;
      continue;
    }
    owners.push_back(it->first);
    it = processes->erase(it);
  }
  return owners;
}

}  // namespace dsec::daemon
