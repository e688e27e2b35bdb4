// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace dsec {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::exists: return "exists";
    case ErrorCode::invalid: return "invalid";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::io: return "io";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::no_space: return "no_space";
    case ErrorCode::permission: return "permission";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::internal: return "internal";
  }
  return "internal";
}

Error Error::within(std::string_view context) const& {
  return Error{code, fmt::format("{}: {}", context, message), sys};
}

Error Error::within(std::string_view context) && {
  message.insert(0, fmt::format("{}: ", context));
  return std::move(*this);
}

namespace {

ErrorCode code_of_errno(int sys) {
  switch (sys) {
    case ENOENT: return ErrorCode::not_found;
    case EEXIST: return ErrorCode::exists;
    case EACCES:
    case EPERM:
    case EROFS: return ErrorCode::permission;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return ErrorCode::no_space;
    case ENOSYS:
    case EOPNOTSUPP: return ErrorCode::unsupported;
    case ETIMEDOUT: return ErrorCode::timeout;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: return ErrorCode::unavailable;
    default: return ErrorCode::io;
  }
}

}  // namespace

tl::unexpected<Error> fail_sys(int sys, std::string what) {
  return tl::unexpected<Error>(Error{code_of_errno(sys), fmt::format("{}: {}", what, errno_text(sys)), sys});
}

std::string errno_text(int sys) { return std::strerror(sys); }

int to_errno(const Error& error) {
  if (error.sys != 0) return error.sys;
  switch (error.code) {
    case ErrorCode::not_found: return ENOENT;
    case ErrorCode::exists: return EEXIST;
    case ErrorCode::invalid: return EINVAL;
    case ErrorCode::no_space: return ENOSPC;
    case ErrorCode::permission: return EACCES;
    case ErrorCode::unsupported: return EOPNOTSUPP;
    case ErrorCode::corrupt:
    case ErrorCode::io:
    case ErrorCode::unavailable:
    case ErrorCode::timeout:
    case ErrorCode::internal: return EIO;
  }
  return EIO;
}

}  // namespace dsec
