// SPDX-License-Identifier: Apache-2.0
// Errors and log lines.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>

#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/result.h"
#include "support/temp_dir.h"

using namespace dsec;
using dsec::test::TempDir;

namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::invalid, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  const int once = TRY(half(value));
  return TRY_IN("second half", half(once));
}

Result<void> check_even(int value) {
  TRY(half(value));
  return {};
}

// What one log call writes.
std::string logged(LogLevel level, LogFormat format, LogLevel line_level) {
  configure_log("test", level, format);
  Pipe pipe = make_pipe().value();
  const Fd saved(::dup(STDERR_FILENO));
  ::dup2(pipe.write_end.get(), STDERR_FILENO);
  log(line_level, "chunk_corrupt", {{"chunk", "ab"}, {"why", "a \"b\"\n"}});
  ::dup2(saved.get(), STDERR_FILENO);
  pipe.write_end.reset();
  configure_log("dsec", LogLevel::info, LogFormat::text);
  Bytes bytes(4096);
  bytes.resize(read_some(pipe.read_end, bytes).value());
  return std::string(as_text(bytes));
}

}  // namespace

TEST_CASE("errors travel outwards and gather context") {
  CHECK(quarter(8).value() == 2);
  CHECK(quarter(7).error().message == "7 is odd");
  CHECK(quarter(6).error().message == "second half: 3 is odd");
  CHECK(check_even(2));
  CHECK(check_even(1).error().code == ErrorCode::invalid);
  const Error error{ErrorCode::io, "x", EIO};
  CHECK(error.within("y").message == "y: x");
  CHECK(error.within("y").sys == EIO);
}

TEST_CASE("a failed system call keeps its errno and gets a code") {
  const auto code = [](int sys) { return Result<void>(fail_sys(sys, "x")).error().code; };
  CHECK(code(ENOENT) == ErrorCode::not_found);
  CHECK(code(EEXIST) == ErrorCode::exists);
  CHECK(code(EPERM) == ErrorCode::permission);
  CHECK(code(ENOSPC) == ErrorCode::no_space);
  CHECK(code(ETIMEDOUT) == ErrorCode::timeout);
  CHECK(code(EOPNOTSUPP) == ErrorCode::unsupported);
  CHECK(code(ECONNREFUSED) == ErrorCode::unavailable);
  CHECK(code(EIO) == ErrorCode::io);
  CHECK(to_errno(Result<void>(fail_sys(EXDEV, "x")).error()) == EXDEV);
  CHECK(to_errno(Error{ErrorCode::not_found, "", 0}) == ENOENT);
  CHECK(to_errno(Error{ErrorCode::corrupt, "", 0}) == EIO);
}

TEST_CASE("every code has a name") {
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    CHECK(std::string(to_string(static_cast<ErrorCode>(code))).size() > 1);
  }
  CHECK(std::string(to_string(ErrorCode::no_space)) == "no_space");
}

TEST_CASE("a log line is one line with its facts") {
  ::unsetenv("DSEC_LOG");
  ::unsetenv("DSEC_LOG_FORMAT");
  const std::string text = logged(LogLevel::info, LogFormat::text, LogLevel::warn);
  CHECK(text.find("Z warn  test: chunk_corrupt chunk=ab why=\"a \\x22b\\x22\\x0a\"\n") != std::string::npos);
  const Json line = parse_json(logged(LogLevel::info, LogFormat::json, LogLevel::error), "line").value();
  CHECK(json_text(line, "level").value() == "error");
  CHECK(json_text(line, "event").value() == "chunk_corrupt");
  CHECK(json_text(line, "why").value() == "a \"b\"\n");
  CHECK(logged(LogLevel::warn, LogFormat::text, LogLevel::info).empty());
}

TEST_CASE("the environment overrides how a program logs") {
  ::setenv("DSEC_LOG", "error", 1);
  CHECK(logged(LogLevel::debug, LogFormat::text, LogLevel::warn).empty());
  ::setenv("DSEC_LOG", "debug", 1);
  ::setenv("DSEC_LOG_FORMAT", "json", 1);
  CHECK(logged(LogLevel::error, LogFormat::text, LogLevel::debug).front() == '{');
  ::unsetenv("DSEC_LOG");
  ::unsetenv("DSEC_LOG_FORMAT");
  configure_log("dsec", LogLevel::info, LogFormat::text);
}

namespace {

// stderr into a file while it lives.
class StderrTo {
 public:
  explicit StderrTo(const std::filesystem::path& path) : saved_(::dup(STDERR_FILENO)) {
    const Fd file = open_file(path, O_WRONLY | O_CREAT | O_APPEND, 0600).value();
    ::dup2(file.get(), STDERR_FILENO);
  }
  ~StderrTo() {
    ::dup2(saved_.get(), STDERR_FILENO);
    configure_log("dsec", LogLevel::info, LogFormat::text);
  }
  StderrTo(const StderrTo&) = delete;
  StderrTo& operator=(const StderrTo&) = delete;

 private:
  Fd saved_;
};

std::string text_of(const std::filesystem::path& path) {
  return std::string(as_text(read_file(path, 1 << 20).value()));
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("the same warning again and again is written so often and no more; other lines are") {
  const TempDir dir;
  {
    const StderrTo file(dir / "log");
    configure_log("test", LogLevel::info, LogFormat::text);
    limit_repeated_lines();
    for (unsigned i = 0; i < 10 * kLogBurst; ++i) {
      log(LogLevel::error, "repeated_for_a_test", {{"i", std::to_string(i)}});
      log(LogLevel::info, "information", {});
    }
    log(LogLevel::error, "another_for_a_test", {});
  }
  const std::string text = text_of(dir / "log");
  CHECK(lines_of(text) == kLogBurst + 10 * kLogBurst + 1);
  CHECK_THAT(text, Catch::Contains("another_for_a_test"));
}

TEST_CASE("a log file that grows becomes an old one, and whoever shares it follows; no line is lost") {
  const TempDir dir;
  std::size_t written = 0;
  {
    const StderrTo file(dir / "log");
    const Fd shared(::dup(STDERR_FILENO));  // of a process that has not noticed
    configure_log("test", LogLevel::info, LogFormat::text);
    LogFile log_file(dir / "log", 1000);
    log_file.tend(LogFile::Role::rotates);
    CHECK_FALSE(std::filesystem::exists(dir / "log.old"));
    for (; written < 20; ++written) log(LogLevel::info, "line", {{"text", std::string(80, 'x')}});
    log_file.tend(LogFile::Role::follows);
    CHECK_FALSE(std::filesystem::exists(dir / "log.old"));
    log_file.tend(LogFile::Role::rotates);
    REQUIRE(std::filesystem::exists(dir / "log.old"));
    log(LogLevel::info, "after", {});
    ::dup2(shared.get(), STDERR_FILENO);
    log(LogLevel::info, "late", {});
    LogFile other(dir / "log", 1000);
    other.tend(LogFile::Role::follows);
    log(LogLevel::info, "followed", {});
  }
  CHECK(lines_of(text_of(dir / "log.old")) == written + 1);
  CHECK_THAT(text_of(dir / "log.old"), Catch::Contains("late"));
  CHECK(lines_of(text_of(dir / "log")) == 2);
  CHECK_THAT(text_of(dir / "log"), Catch::Contains("after") && Catch::Contains("followed"));
}

TEST_CASE("a log that goes elsewhere is left alone") {
  const TempDir dir;
  const StderrTo file(dir / "elsewhere");
  LogFile log_file(dir / "log", 0);
  log(LogLevel::info, "line", {});
  log_file.tend(LogFile::Role::rotates);
  CHECK_FALSE(std::filesystem::exists(dir / "log"));
}
