// SPDX-License-Identifier: Apache-2.0
// The figures as one document and as text for Prometheus. docs/observing.md names them all.
#pragma once

#include <optional>
#include <string>

#include "base/digest.h"
#include "base/json.h"
#include "daemon/sight.h"

namespace dsec::daemon {

// Everything, or with the one environment among "envs"; `not_found` when that is not attached.
Result<Json> stats_document(const Sight& sight, const std::optional<Digest>& env);

// Prometheus text exposition format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).
std::string exposition(const Sight& sight);

}  // namespace dsec::daemon
