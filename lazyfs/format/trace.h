// SPDX-License-Identifier: Apache-2.0
// What an environment was first asked for, in order: for fetching it before it is asked for. docs/format.md, "Trace".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace dsec::format {

inline constexpr std::size_t kMaxTraceEntries = std::size_t{1} << 22;  // 1 TiB of chunks of the largest size

// Digests of chunks and recipes, each once, in the order in which they were wanted first. Which layer has one and where
// it lies is found in the location maps. A trace is advice: what it names and nobody has is passed over.
using Trace = std::vector<Digest>;

// `trace` must hold each digest once; what is beyond kMaxTraceEntries is left out.
Bytes write_trace(const Trace& trace);
// `corrupt` names the broken rule.
Result<Trace> read_trace(ByteView bytes);

}  // namespace dsec::format
