// SPDX-License-Identifier: Apache-2.0
// Messages between lazyfsd and its clients: one JSON document a line over a UNIX stream socket.
#pragma once

#include <filesystem>
#include <string>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"

namespace dsec::control {

inline constexpr std::size_t kMaxMessageBytes = 1 << 20;

// Sends one document and a newline, with a copy of a descriptor when `passed` is one. `unavailable` when the peer is
// gone.
Result<void> send_message(const Fd& socket, const Json& message, int passed = -1);
// The next document; `unavailable` at the end of the stream, `invalid` for what is no JSON or too long, `timeout` when
// nothing comes for `timeout_ms` (-1: wait for ever). `rest` keeps what was read beyond the line, for the next call;
// `passed` gets a descriptor that came with it.
Result<Json> receive_message(const Fd& socket, std::string& rest, int timeout_ms, Fd* passed = nullptr);

// A listening socket at `path` with mode 0600. A socket that was there is replaced, anything else is an error.
Result<Fd> listen_on(const std::filesystem::path& path);
// `unavailable` when nobody listens, `timeout` when whoever does takes no connection for `timeout_ms` (-1: waits for
// ever). Sending is bounded in the same way from then on.
Result<Fd> connect_to(const std::filesystem::path& path, int timeout_ms = -1);

// {"error": {...}} of an error, and the error of such a document.
Json error_message(const Error& error);
Result<Json> reply_or_error(Json reply);

}  // namespace dsec::control
