// SPDX-License-Identifier: Apache-2.0
#include "control/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dsec::control {

namespace {

union PassedFd {  // aligned as the kernel wants it
  char bytes[CMSG_SPACE(sizeof(int))];
  struct cmsghdr header;
};

// sendmsg(2) with a descriptor unless it is -1.
ssize_t send_bytes(const Fd& socket, const char* data, std::size_t size, int passed) {
  struct iovec part {
    const_cast<char*>(data), size
  };
  PassedFd room{};
  struct msghdr message {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (passed >= 0) {
    message.msg_control = room.bytes;
    message.msg_controllen = sizeof room.bytes;
    room.header.cmsg_level = SOL_SOCKET;
    room.header.cmsg_type = SCM_RIGHTS;
    room.header.cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(&room.header), &passed, sizeof passed);
  }
  return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
}

// recvmsg(2); a descriptor that comes along is closed when `passed` is null.
ssize_t receive_bytes(const Fd& socket, char* data, std::size_t size, Fd* passed) {
  struct iovec part {
    data, size
  };
  PassedFd room{};
  struct msghdr message {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes;
  message.msg_controllen = sizeof room.bytes;
  const ssize_t n = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  const struct cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return n;
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof number);
  Fd fd(number);
  if (passed != nullptr) *passed = std::move(fd);
  return n;
}

}  // namespace

Result<void> send_message(const Fd& socket, const Json& message, int passed) {
  const std::string line = dump_json(message) + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = send_bytes(socket, line.data() + sent, line.size() - sent, sent == 0 ? passed : -1);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return fail(ErrorCode::timeout, "lazyfsd takes no message");
    if (n < 0) return fail(ErrorCode::unavailable, "send to lazyfsd: {}", errno_text(errno));
    sent += static_cast<std::size_t>(n);
  }
  return {};
}

Result<Json> receive_message(const Fd& socket, std::string& rest, int timeout_ms, Fd* passed) {
  while (true) {
    const std::size_t end = rest.find('\n');
    if (end != std::string::npos) {
      const std::string line = rest.substr(0, end);
      rest.erase(0, end + 1);
      return parse_json(line, "message");
    }
    if (rest.size() > kMaxMessageBytes)
      return fail(ErrorCode::invalid, "a message has more than {} bytes", kMaxMessageBytes);
    struct pollfd polled {
      socket.get(), POLLIN, 0
    };
    const int ready = ::poll(&polled, 1, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return fail(ErrorCode::timeout, "no message within {} ms", timeout_ms);
    char buffer[8192];
    const ssize_t n = receive_bytes(socket, buffer, sizeof buffer, passed);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(ErrorCode::unavailable, "the other side closed the connection");
    rest.append(buffer, static_cast<std::size_t>(n));
  }
}

namespace {

Result<sockaddr_un> address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) {
    return fail(ErrorCode::invalid, "the socket path {} is longer than {} bytes: set DSEC_RUNTIME_DIR to a shorter one",
                path.native(), sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  return address;
}

Result<Fd> make_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_sys(errno, "make a socket");
  return fd;
}

}  // namespace

Result<Fd> listen_on(const std::filesystem::path& path) {
  const sockaddr_un address = TRY(address_of(path));
  Fd fd = TRY(make_socket());
  std::error_code ignored;
  if (std::filesystem::is_socket(std::filesystem::symlink_status(path, ignored)))
    std::filesystem::remove(path, ignored);
  const mode_t mask = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(mask);
  if (bound != 0 || ::listen(fd.get(), 128) != 0) return fail_sys(errno, fmt::format("listen on {}", path.native()));
  return fd;
}

Result<Fd> connect_to(const std::filesystem::path& path, int timeout_ms) {
  const sockaddr_un address = TRY(address_of(path));
  Fd fd = TRY(make_socket());
  if (timeout_ms >= 0) {
    const struct timeval limit { timeout_ms / 1000, timeout_ms % 1000 * 1000 };
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // connect(2) obeys it, too (unix(7))
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EAGAIN) {
      return fail(ErrorCode::timeout, "{} has taken no connection for {} ms: too many wait already", path.native(),
                  timeout_ms);
    }
    return fail(ErrorCode::unavailable, "connect to {}: {}", path.native(), errno_text(errno));
  }
  return fd;
}

Json error_message(const Error& error) {
  return {{"error", {{"code", to_string(error.code)}, {"message", error.message}}}};
}

Result<Json> reply_or_error(Json reply) {
  const auto found = reply.find("error");
  if (found == reply.end()) return reply;
  const std::string code = or_default(json_text(*found, "code"), std::string("internal")).value_or("internal");
  const std::string message = or_default(json_text(*found, "message"), std::string()).value_or("");
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    if (code == to_string(static_cast<ErrorCode>(i)))
      return tl::unexpected(Error{static_cast<ErrorCode>(i), message, 0});
  }
  return fail(ErrorCode::internal, "{}", message);
}

}  // namespace dsec::control
