// SPDX-License-Identifier: Apache-2.0
// Where things are by default.
#pragma once

#include <filesystem>

namespace dsec {

// The store: `flag` when not empty, else $DSEC_STORE, else /var/lib/dsec/store for root and
// $XDG_DATA_HOME/dsec/store (~/.local/share/dsec/store) for others.
std::filesystem::path default_store(const std::filesystem::path& flag = {});
// Sockets, mounts and the state of running sandboxes; gone after a reboot. $DSEC_RUNTIME_DIR, else /run/dsec for root,
// else $XDG_RUNTIME_DIR/dsec.
std::filesystem::path runtime_dir();
// Writable layers, logs and the node cache; on disk. $DSEC_STATE_DIR, else /var/lib/dsec for root, else
// $XDG_DATA_HOME/dsec.
std::filesystem::path state_dir();
// A program of this project: beside the running one, else as `name` from $PATH.
std::filesystem::path sibling_program(const std::string& name);

}  // namespace dsec
