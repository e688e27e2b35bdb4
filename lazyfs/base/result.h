// SPDX-License-Identifier: Apache-2.0
// Result<T> and Error: the one way in which functions of this project fail.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace dsec {

// What kind of failure it is: what a caller may decide on. The text is for people only.
enum class ErrorCode {
  not_found,    // absent, and nothing else
  exists,       // already there
  invalid,      // input that a person or another program wrote is wrong: say where and what to do
  corrupt,      // stored bytes are not what they must be
  io,           // the operating system failed an operation; may be worth a retry
  unavailable,  // a store, daemon or peer does not answer now
  timeout,      // a deadline passed
  no_space,     // disk, quota or a named limit is full
  permission,   // the operating system or a policy refused
  unsupported,  // this kernel, file system or build cannot do it
  internal,     // a bug of ours
};

// Stable lower-case name of a code ("not_found"), as JSON output shows it.
const char* to_string(ErrorCode code);

// One failure. `message` says what was being done, to what, why it failed, and what to do where that is known.
// `sys` is the errno that caused it, 0 if none. Value type; safe to copy between threads.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  int sys = 0;

  // The same failure seen from further out: "CONTEXT: message".
  [[nodiscard]] Error within(std::string_view context) const&;
  [[nodiscard]] Error within(std::string_view context) &&;
};

template <typename T>
using Result = tl::expected<T, Error>;

// A failure of `code` with a formatted message, convertible to any Result<T>.
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(text, std::forward<Args>(args)...), 0});
}

// A failed system call: errno becomes an Error here and nowhere else. `sys` is the errno value; the message gets
// ": <strerror>" appended.
[[nodiscard]] tl::unexpected<Error> fail_sys(int sys, std::string what);

// The system's text for an errno.
std::string errno_text(int sys);

// The errno that stands for an error at an interface that only knows errno (FUSE, exit paths).
int to_errno(const Error& error);

// What TRY yields: the value, moved out; nothing for Result<void>.
template <typename T>
T take_value(Result<T>& result) {
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace dsec

// The value of a Result, or return its error from the enclosing function. The only control-flow macro of the project.
#define TRY(...) DSEC_TRY_IMPL(DSEC_TRY_NAME(__COUNTER__), , __VA_ARGS__)

// TRY that adds "CONTEXT: " before the message of a failure.
#define TRY_IN(context, ...) DSEC_TRY_IMPL(DSEC_TRY_NAME(__COUNTER__), .within(context), __VA_ARGS__)

// A name of its own for each use, so that one may stand inside another.
#define DSEC_TRY_NAME(number) DSEC_TRY_NAME_IMPL(number)
#define DSEC_TRY_NAME_IMPL(number) try_result_##number
#define DSEC_TRY_IMPL(result, within_context, ...)                                \
  ({                                                                              \
    auto result = (__VA_ARGS__);                                                  \
    if (!result) return tl::unexpected(std::move(result).error() within_context); \
    ::dsec::take_value(result);                                                   \
  })
