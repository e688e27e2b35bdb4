// SPDX-License-Identifier: Apache-2.0
// Waiting for what lazyfsd fetches ahead of need.
#pragma once

#include "base/digest.h"
#include "base/result.h"
#include "control/client.h"

namespace dsec::cli {

// Has lazyfsd fetch an environment, which is attached meanwhile, and waits until that is over, with a bar on a
// terminal, with lines of JSON on standard error when `json`, else in silence. Asks again when lazyfsd was replaced, or
// when somebody else, whose job it was, left. Returns the end: `done`, with all bytes, or `needless`; `io` when the
// store did not give them.
Result<control::FetchProgress> fetch_ahead(control::Client& client, const Digest& env, control::Fetch what, bool json);

}  // namespace dsec::cli
