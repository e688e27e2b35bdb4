// SPDX-License-Identifier: Apache-2.0
// Errors and log lines.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>

#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/result.h"

using namespace dsec;

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
