// SPDX-License-Identifier: Apache-2.0
// Standard input and output, terminals.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "fixture.h"

using namespace dsec;
using namespace dsec::test;

TEST_CASE("large input and output pass through unchanged", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  std::string data(20u << 20, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
  write_text(bench.dir() / "in", data);
  const Fd in(::open((bench.dir() / "in").c_str(), O_RDONLY));
  SandboxSpec spec = bench.command({"cat"});
  spec.stdio.in = in.get();
  const auto from_file = bench.run(spec);
  CHECK(from_file.out == data);

  Pipe pipe = *make_pipe();
  std::thread writer([&] {
    std::ignore = write_all(pipe.write_end, as_bytes(data));
    pipe.write_end.reset();
  });
  spec = bench.command({"cat"});
  spec.stdio.in = pipe.read_end.get();
  const auto from_pipe = bench.run(spec);
  writer.join();
  CHECK(from_pipe.out == data);
}

TEST_CASE("standard error stays apart from standard output", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const auto output = bench.run_shell("echo out; echo err >&2");
  CHECK(output.out == "out\n");
  CHECK(output.err == "err\n");
}

TEST_CASE("a reader that goes away ends the writer", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  Pipe pipe = *make_pipe();
  SandboxSpec spec = bench.command({"yes"});
  spec.stdio.out = pipe.write_end.get();
  std::thread reader([&] {
    std::uint8_t some[100];
    std::ignore = read_some(pipe.read_end, some);
    pipe.read_end.reset();
  });
  const auto output = bench.run(spec);
  reader.join();
  CHECK(output.result.cause != "timeout");
  CHECK(output.result.exit_code != 0);
}

TEST_CASE("only standard descriptors reach the command", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  // The shell's own listing of /proc/self/fd has one more, the directory itself.
  CHECK(bench.run_shell("ls /proc/self/fd | wc -l").out == "4\n");
}

namespace {

// A client on a pseudo terminal, in a session of its own.
class OnTerminal {
 public:
  OnTerminal(SandboxBench& bench, const std::string& id, std::vector<std::string> options,
             std::vector<std::string> command) {
    std::vector<std::string> words{DSEC_CLIENT, bench.root(), id, bench.dir() / (id + ".result")};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    struct winsize size {};
    size.ws_row = 33;
    size.ws_col = 77;
    pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  ~OnTerminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(fd_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void type(const std::string& text) { std::ignore = ::write(fd_, text.data(), text.size()); }
  bool shows(const std::string& text) {
    return eventually([&] {
      struct pollfd entry {
        fd_, POLLIN, 0
      };
      char buffer[4096];
      while (::poll(&entry, 1, 0) > 0) {
        const ssize_t n = ::read(fd_, buffer, sizeof buffer);
        if (n <= 0) break;
        screen_.append(buffer, static_cast<std::size_t>(n));
      }
      return screen_.find(text) != std::string::npos;
    });
  }
  void resize(unsigned short rows, unsigned short columns) {
    struct winsize size {};
    size.ws_row = rows;
    size.ws_col = columns;
    ::ioctl(fd_, TIOCSWINSZ, &size);
  }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  [[nodiscard]] const std::string& screen() const { return screen_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string screen_;
};

}  // namespace

TEST_CASE("with a terminal of its own the command is in the foreground of a session", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  OnTerminal terminal(bench, bench.next_id(), {"tty"}, {"sh"});
  terminal.type("tty; echo $TERM; stty size; echo rea''dy\n");
  CHECK(terminal.shows("ready"));
  CHECK_THAT(terminal.screen(), Catch::Contains("/dev/"));
  CHECK_THAT(terminal.screen(), Catch::Contains("xterm"));
  CHECK_THAT(terminal.screen(), Catch::Contains("33 77"));
  CHECK_THAT(terminal.screen(), !Catch::Contains("job control"));
  // ^C ends what runs in the foreground, not the shell.
  terminal.type("sleep 1000\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  terminal.type("\x03");
  terminal.type("echo ali''ve\n");
  CHECK(terminal.shows("alive"));
  terminal.type("exit 9\n");
  CHECK(terminal.wait() == 9);
  CHECK(bench.leftovers_soon() == std::vector<std::string>{});
}

TEST_CASE("the terminal's size follows", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  OnTerminal terminal(bench, bench.next_id(), {"tty"}, {"probe", "winsize"});
  CHECK(terminal.shows("33x77"));
  terminal.resize(44, 88);
  CHECK(terminal.shows("44x88"));
  ::kill(terminal.pid(), SIGTERM);
  CHECK(terminal.wait() == 0);
}

TEST_CASE("without one, reading from the client's terminal works and ^C reaches the command", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  const std::string id = bench.next_id();
  OnTerminal terminal(bench, id, {},
                      {"sh", "-c",
                       "trap 'echo got-int; exit 4' INT; echo hello; read line; echo \"line=$line\"; "
                       "while :; do usleep 10000; done"});
  CHECK(terminal.shows("hello"));
  terminal.type("typed\n");
  CHECK(terminal.shows("line=typed"));
  terminal.type("\x03");
  CHECK(terminal.shows("got-int"));
  CHECK(terminal.wait() == 4);
}

TEST_CASE("a terminal that hangs up ends the sandbox", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  {
    const std::string id = bench.next_id();
    OnTerminal terminal(bench, id, {"tty"}, {"sh", "-c", "trap '' HUP; echo up; while :; do usleep 10000; done"});
    CHECK(terminal.shows("up"));
  }  // closed and the client killed
  CHECK(bench.leftovers_soon() == std::vector<std::string>{});
}

TEST_CASE("a terminal is refused when there is none", "[launch]") {
  NEED_SANDBOXES();
  SandboxBench bench;
  SandboxSpec spec = bench.command({"true"});
  spec.tty = SandboxSpec::Tty::yes;
  const Fd null(::open("/dev/null", O_RDONLY));
  spec.stdio.in = null.get();
  const auto result = run_sandbox(spec);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::invalid);
}
