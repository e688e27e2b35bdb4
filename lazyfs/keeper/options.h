// SPDX-License-Identifier: Apache-2.0
// The command line of lazyfs-keeper.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace dsec::keeper {

struct KeeperOptions {
  std::filesystem::path dir;           // of the daemon: lock, control socket, mounts
  int ready_fd = -1;                   // gets one byte when lazyfsd serves
  std::vector<std::string> arguments;  // for lazyfsd: --store, --dir and everything that is not for the keeper
  enum class Begin { fresh, adopt } begin = Begin::fresh;  // adopt: a lazyfsd runs whose keeper died
  // `never` treats the kernel as one before 6.9 ($DSEC_KEEPER_RESEND).
  enum class Resend { when_offered, never } resend = Resend::when_offered;
  std::chrono::milliseconds start_patience{20000};  // a lazyfsd that is not ready by then is killed; at most `patience`
  // A lazyfsd that is silent for so long is killed, and one that cannot be started again for so long is given up
  // ($DSEC_KEEPER_PATIENCE; 0: never, for debuggers).
  std::chrono::milliseconds patience{60000};
};

// `invalid` says what is wrong. Without --dir it is the directory that `dsec` uses for the store.
Result<KeeperOptions> parse_options(const std::vector<std::string>& arguments);

std::string options_help();

}  // namespace dsec::keeper
