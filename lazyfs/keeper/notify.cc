// SPDX-License-Identifier: Apache-2.0
#include "keeper/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/fd.h"

namespace dsec::keeper {

void notify_ready() {
  const char* named = std::getenv("NOTIFY_SOCKET");
  if (named == nullptr) return;
  const std::string_view path = named;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // a name that is in no directory
  ::unsetenv("NOTIFY_SOCKET");
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr std::string_view kReady = "READY=1";
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  [[maybe_unused]] const ssize_t ignored = ::sendto(socket.get(), kReady.data(), kReady.size(), MSG_NOSIGNAL,
                                                    reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace dsec::keeper
