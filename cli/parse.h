// SPDX-License-Identifier: Apache-2.0
// The command line of `dsec`. The only file that knows CLI11.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "base/result.h"

namespace dsec::cli {

// What to do: a verb with its arguments, or an exit code when all is said (help, version, a usage error: printed
// already).
using Action = std::variant<std::function<Result<int>()>, int>;
Action parse_command_line(int argc, char** argv);

}  // namespace dsec::cli
