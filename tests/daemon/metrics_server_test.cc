// SPDX-License-Identifier: Apache-2.0
// GET /metrics: addresses, answers, and clients that are slow, many or hostile.
#include "daemon/metrics_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "control/wire.h"
#include "store/store_support.h"

namespace dsec::daemon {
namespace {

using dsec::test::TempDir;

TEST_CASE("addresses are numeric with a port, or paths of sockets") {
  CHECK(parse_listen_address("127.0.0.1:9400")->port == 9400);
  CHECK(parse_listen_address("[::1]:80")->host == "::1");
  CHECK(parse_listen_address("unix:/run/x")->path == "/run/x");
  for (const char* wrong : {"", "9400", "localhost:9400", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                            "127.0.0.1:1x", "unix:", "unix:relative", "[::1]", ":9400"}) {
    INFO(wrong);
    CHECK(parse_listen_address(wrong).error().code == ErrorCode::invalid);
  }
}

TEST_CASE("a wrong port of a right address is said to be the mistake") {
  for (const char* port : {"99999", "0", "65536", "-1", "1x", ""}) {
    INFO(port);
    for (const char* host : {"127.0.0.1", "[::1]"}) {
      const std::string text = fmt::format("{}:{}", host, port);
      CHECK(parse_listen_address(text).error().message ==
            fmt::format("\"{}\": the port \"{}\" is no number from 1 to 65535", text, port));
    }
  }
  CHECK(parse_listen_address("example:99999").error().message.find("127.0.0.1:9400") != std::string::npos);
}

TEST_CASE("only GET of /metrics is answered with the text") {
  const auto status = [](std::string_view line) {
    const std::string answer = http_answer(line, [] { return std::string("a 1\n"); });
    return answer.substr(9, 3);
  };
  CHECK(status("GET /metrics HTTP/1.1") == "200");
  CHECK(status("GET /metrics?name=x HTTP/1.0") == "200");
  CHECK(status("GET /metrics/ HTTP/1.1") == "404");
  CHECK(status("HEAD /metrics HTTP/1.1") == "405");
  for (const char* line : {"", "GET", "GET /metrics", "GET /metrics HTTP/2.0 x", "GET  /metrics HTTP/1.1"}) {
    INFO(line);
    CHECK(status(line) == "400");
  }
  const std::string answer = http_answer("GET /metrics HTTP/1.1", [] { return std::string("a 1\n"); });
  CHECK(answer.find("\r\nContent-Length: 4\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\na 1\n"));
}

// A server on a socket of its own; its text is larger than socket buffers.
struct Served {
  Served() : server({{}, 0, (dir / "socket").native()}, [] { return std::string(4 << 20, 'x') + "\n"; }) {}
  [[nodiscard]] Fd connect() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < until) {
      if (auto socket = control::connect_to(dir / "socket")) return std::move(*socket);
    }
    FAIL("nobody listens");
    return Fd();
  }
  TempDir dir;
  MetricsServer server;
};

void say(const Fd& socket, std::string_view text) {
  REQUIRE(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

std::string hear(const Fd& socket) {
  std::string text;
  std::vector<char> part(65536);
  pollfd polled{socket.get(), POLLIN, 0};
  while (::poll(&polled, 1, 20000) > 0) {
    const ssize_t n = ::recv(socket.get(), part.data(), part.size(), 0);
    if (n <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  FAIL("no answer");
  return text;
}

constexpr std::string_view kRequest = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_CASE("a request in pieces is answered whole, and the connection ends") {
  const Served served;
  const Fd socket = served.connect();
  for (const char c : kRequest) say(socket, {&c, 1});
  const std::string answer = hear(socket);
  CHECK(starts_with(answer, "HTTP/1.1 200 OK\r\n"));
  CHECK(answer.size() > (4u << 20));
  CHECK(answer.back() == '\n');
}

TEST_CASE("who sends without end is refused with an answer") {
  const Served served;
  const Fd socket = served.connect();
  say(socket, "GET /" + std::string(2 * MetricsServer::kMaxRequestBytes, 'x'));
  CHECK(starts_with(hear(socket), "HTTP/1.1 431 "));
}

TEST_CASE("clients that say nothing, or do not listen, hold up nobody for longer than their time") {
  const Served served;
  std::vector<Fd> idle;
  for (std::size_t i = 0; i < MetricsServer::kMaxConnections + 4; ++i) {
    idle.push_back(served.connect());
    if (i % 2 == 0) say(idle.back(), kRequest);  // and never reads
  }
  const Fd socket = served.connect();
  say(socket, kRequest);
  CHECK(starts_with(hear(socket), "HTTP/1.1 200 OK\r\n"));
}

TEST_CASE("a server ends at once, also with clients") {
  auto served = std::make_unique<Served>();
  const Fd socket = served->connect();
  say(socket, "GET");
  served.reset();
  CHECK(hear(socket).empty());
}

TEST_CASE("the file of a socket goes with its server, unless another one listens there") {
  const TempDir dir;
  const auto path = dir / "socket";
  const auto start = [&] {
    auto server =
        std::make_unique<MetricsServer>(ListenAddress{{}, 0, path.native()}, [] { return std::string("a\n"); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!control::connect_to(path) && std::chrono::steady_clock::now() < until) {
    }
    REQUIRE(control::connect_to(path));
    return server;
  };
  start().reset();
  CHECK_FALSE(std::filesystem::exists(path));

  auto before = start();
  const auto file_of = [&] {
    struct stat file {};
    return ::lstat(path.c_str(), &file) == 0 ? file.st_ino : 0;
  };
  const ino_t first = file_of();
  auto successor =
      std::make_unique<MetricsServer>(ListenAddress{{}, 0, path.native()}, [] { return std::string("b\n"); });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while ((file_of() == first || !control::connect_to(path)) && std::chrono::steady_clock::now() < until) {
  }
  before.reset();
  CHECK(control::connect_to(path).has_value());
  successor.reset();
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("what is no socket is never removed") {
  const TempDir dir;
  test::write_text(dir / "notes", "mine");
  {
    const MetricsServer server({{}, 0, (dir / "notes").native()}, [] { return std::string("a\n"); });
  }
  CHECK(std::filesystem::file_size(dir / "notes") == 4);
  CHECK(control::listen_on(dir / "notes").error().sys == EADDRINUSE);
}

TEST_CASE("an address that is taken is had when it is free") {
  const Fd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(taken.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
  REQUIRE(::listen(taken.get(), 1) == 0);
  socklen_t size = sizeof where;
  REQUIRE(::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0);
  const MetricsServer server({"127.0.0.1", ntohs(where.sin_port), {}}, [] { return std::string("a 1\n"); });
  ::shutdown(taken.get(), SHUT_RDWR);  // it listens no more
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::string answer;
  while (answer.empty() && std::chrono::steady_clock::now() < until) {
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) continue;
    say(socket, kRequest);
    answer = hear(socket);
  }
  CHECK(answer.ends_with("a 1\n"));
}

}  // namespace
}  // namespace dsec::daemon
