// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "support/temp_dir.h"

using namespace dsec;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

Fd file_with(const std::filesystem::path& path, std::string_view text) {
  Fd fd = open_file(path, O_RDWR | O_CREAT, 0600).value();
  REQUIRE(write_all(fd, as_bytes(text)));
  return fd;
}

}  // namespace

TEST_CASE("a descriptor is closed once, by its last owner") {
  const Pipe pipe = make_pipe().value();
  const int number = ::dup(pipe.read_end.get());
  {
    Fd first(number);
    Fd second = std::move(first);
    CHECK_FALSE(first.valid());
    Fd third;
    third = std::move(second);
    CHECK(third.get() == number);
    Fd& self = third;
    third = std::move(self);
    CHECK(third.get() == number);
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));
  Fd kept(::dup(pipe.read_end.get()));
  const int released = kept.release();
  CHECK_FALSE(kept.valid());
  CHECK(is_open(released));
  ::close(released);
}

TEST_CASE("descriptors are not inherited") {
  const test::TempDir dir;
  const Fd fd = file_with(dir / "f", "x");
  CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  const Fd parent = open_file(dir.path(), O_RDONLY | O_DIRECTORY).value();
  CHECK((::fcntl(open_at(parent, "f", O_RDONLY)->get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(make_pipe()->write_end.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("opening names the path in its error") {
  const test::TempDir dir;
  const auto absent = open_file(dir / "absent", O_RDONLY);
  CHECK(absent.error().code == ErrorCode::not_found);
  CHECK(absent.error().sys == ENOENT);
  CHECK(absent.error().message.find("absent") != std::string::npos);
  file_with(dir / "f", "x");
  CHECK(open_file(dir / "f", O_CREAT | O_EXCL | O_WRONLY, 0600).error().code == ErrorCode::exists);
  CHECK_FALSE(open_file(dir / "f/g", O_RDONLY));
  CHECK_FALSE(open_file(dir.path(), O_WRONLY));
}

TEST_CASE("an exact read gets all bytes or says that the file ends") {
  const test::TempDir dir;
  const Fd fd = file_with(dir / "f", "0123456789");
  Bytes bytes(4);
  REQUIRE(pread_exact(fd, bytes, 6));
  CHECK(as_text(bytes) == "6789");
  CHECK(pread_exact(fd, bytes, 7).error().code == ErrorCode::corrupt);
  CHECK(pread_exact(fd, bytes, 100).error().code == ErrorCode::corrupt);
  CHECK(pread_exact(fd, {}, 100));
  CHECK_FALSE(pread_exact(Fd(), bytes, 0));
}

TEST_CASE("a file is read whole up to a limit") {
  const test::TempDir dir;
  file_with(dir / "f", std::string(10000, 'x'));
  CHECK(read_file(dir / "f", 10000)->size() == 10000);
  CHECK(read_file(dir / "f", 9999).error().code == ErrorCode::invalid);
  file_with(dir / "empty", "");
  CHECK(read_file(dir / "empty", 0)->empty());
  CHECK(read_file("/proc/self/status", 1 << 20)->size() > 100);  // says it has no bytes
  CHECK(read_file("/proc/self/status", 10).error().code == ErrorCode::invalid);
  CHECK_FALSE(read_file(dir.path(), 100));
}

TEST_CASE("pipes carry bytes to their end") {
  Pipe pipe = make_pipe().value();
  REQUIRE(write_all(pipe.write_end, as_bytes("abc")));
  pipe.write_end.reset();
  Bytes bytes(10);
  CHECK(read_some(pipe.read_end, bytes).value() == 3);
  CHECK(read_some(pipe.read_end, bytes).value() == 0);
}

TEST_CASE("directories are made with their parents, and syncing what is not there fails") {
  const test::TempDir dir;
  REQUIRE(make_dirs(dir / "a/b/c"));
  REQUIRE(make_dirs(dir / "a/b/c"));
  CHECK(sync_dir(dir / "a/b"));
  CHECK_FALSE(sync_dir(dir / "absent"));
  file_with(dir / "f", "");
  CHECK_FALSE(make_dirs(dir / "f/x"));
  CHECK_FALSE(sync_dir(dir / "f"));
}
