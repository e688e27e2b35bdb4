// SPDX-License-Identifier: Apache-2.0
#include "base/lock_file.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/temp_dir.h"

using namespace dsec;
using dsec::test::TempDir;

namespace {

// A process that takes the lock over, and whoever it leaves the descriptor to; both are gone at the end.
class Holder {
 public:
  explicit Holder(const std::filesystem::path& path) {
    Pipe pipe = make_pipe().value();
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto lock = LockFile::try_take_over(path);
      const pid_t other = ::fork();
      if (other == 0) {
        while (true) ::pause();
      }
      [[maybe_unused]] const auto told = ::write(pipe.write_end.get(), &other, lock ? sizeof other : 1);
      while (true) ::pause();
    }
    took_ = ::read(pipe.read_end.get(), &other_, sizeof other_) == sizeof other_;
  }
  ~Holder() {
    for (const pid_t pid : {pid_, other_}) {
      if (pid > 0) ::kill(pid, SIGKILL);
    }
    ::waitpid(pid_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  [[nodiscard]] bool took() const { return took_; }
  // Nobody waits for it: it is still there, as one is that the kernel waits for; its descriptor is still open.
  void kill() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t pid_ = -1;
  pid_t other_ = -1;
  bool took_ = false;
};

}  // namespace

TEST_CASE("a lock is had once, and by the next one when it was let go of") {
  const TempDir dir;
  auto first = LockFile::try_take_over(dir / "lock");
  REQUIRE(first);
  CHECK(LockFile::try_take_over(dir / "lock").error().code == ErrorCode::exists);
  CHECK(LockFile::try_take(dir / "lock").error().code == ErrorCode::exists);
  const Fd copy(::dup(first->fd().get()));
  first->release();
  CHECK(LockFile::try_take(dir / "lock"));
}

TEST_CASE("who has been killed does not keep a lock, though its descriptors are still open") {
  const TempDir dir;
  const Holder holder(dir / "lock");
  REQUIRE(holder.took());
  CHECK(LockFile::try_take_over(dir / "lock").error().code == ErrorCode::exists);  // it lives
  holder.kill();
  CHECK(LockFile::try_take(dir / "lock").error().code == ErrorCode::exists);
  const auto taken = LockFile::try_take_over(dir / "lock");
  REQUIRE(taken);
  CHECK(LockFile::try_take_over(dir / "lock").error().code == ErrorCode::exists);  // we live
}
