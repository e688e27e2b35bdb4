// SPDX-License-Identifier: Apache-2.0
// Specifications and results as JSON: spec.json on disk, and what client and monitor tell each other.
#pragma once

#include <string>
#include <string_view>

#include "launcher/sandbox.h"

namespace dsec::launcher {

// Checks what can be checked without touching a file: names, non-empty argv and lowers, absolute targets, limits,
// UTF-8. `invalid` says which member is wrong and what is accepted.
Result<void> validate_spec(const SandboxSpec& spec);

// A validated specification as a document. `stdio` and `signals` are the caller's and are not part of it.
Result<std::string> spec_to_json(const SandboxSpec& spec, std::string_view created_at);
Result<SandboxSpec> spec_from_json(std::string_view text);
Result<std::string> created_at_from_json(std::string_view text);

std::string result_to_json(const SandboxResult& result);
Result<SandboxResult> result_from_json(std::string_view text);

}  // namespace dsec::launcher
