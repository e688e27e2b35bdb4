// SPDX-License-Identifier: Apache-2.0
// The settings file of a lazyfsd that goes on with the mounts of another one: a mistake that was made in it meanwhile
// is no reason to fail their readers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/settings.h"

namespace dsec::daemon {

// As load_settings(). For who was started by a keeper, and cannot use the file, what it said when a predecessor wrote
// it down; `file_problem` says then what is wrong with it now.
Result<Settings> choose_settings(const std::vector<std::string>& arguments);

// Writes down what the file said, in the daemon's directory, unless it is not used now. What cannot be written is one
// log line.
void keep_settings(const Settings& settings);

}  // namespace dsec::daemon
