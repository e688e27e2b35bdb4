// SPDX-License-Identifier: Apache-2.0
#include "daemon/leases.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>

#include "base/text.h"

namespace dsec::daemon {

std::optional<LeaseHolder> holder_of(pid_t pid) {
  constexpr std::uint64_t kMaxBytes = 4096;
  constexpr std::size_t kStartField = 19;  // counted from the state, which follows the name
  const auto bytes = read_file(fmt::format("/proc/{}/stat", pid), kMaxBytes);
  if (!bytes) return std::nullopt;
  const std::string_view text = as_text(*bytes);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 > text.size()) return std::nullopt;
  const auto words = split(text.substr(name_end + 2), ' ');
  LeaseHolder holder{pid, 0};
  if (words.size() <= kStartField) return std::nullopt;
  const std::string_view word = words[kStartField];
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), holder.start_ticks);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return holder;
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
