// SPDX-License-Identifier: Apache-2.0
// What a keeper gives to the lazyfsd that it starts, and an orphaned lazyfsd to a new keeper.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace dsec::control {

// The child finds the descriptors at these numbers; the document that describes them is at kHandoverFd.
inline constexpr int kHandoverFd = 3;
inline constexpr int kListenerFd = 4;  // the control socket, listening
inline constexpr int kLockFd = 5;      // holds the lock of the daemon's directory
inline constexpr int kChannelFd = 6;   // SOCK_SEQPACKET between the two
inline constexpr int kPlainMountFd = 7;
inline constexpr int kXattrMountFd = 8;
inline constexpr int kProgramFd = 9;  // the program itself, when it is started from a descriptor

// What a lazyfsd leaves in its directory for the next one, besides `slots`, which stays.
inline constexpr std::array kLeftForSuccessor{"attachments", "store.toml", "store.place", "lazyfsd.toml"};
void remove_what_was_left(const std::filesystem::path& dir);

// Packets of one byte on the channel.
enum class Signal : char {
  ready = 'R',    // lazyfsd serves
  beat = 'B',     // lazyfsd is alive
  stopped = 'Q',  // lazyfsd ends because it was asked to, or is idle: unmount
  drained = 'U',  // lazyfsd ends with every request answered: start the next one
  hurried = 'H',  // lazyfsd ends for the next one with requests unanswered
  rings = 'I',    // lazyfsd serves its mounts through io_uring: nobody can go on with them
  stop = 'S',     // to lazyfsd: end
};

// How often lazyfsd sends a beat. A keeper that hears none for much longer takes it for hung.
inline constexpr int kBeatPeriodMs = 5000;

struct Handover {
  // The mounts, plain and with xattrs, and the INIT of each (fuse/device.h).
  std::array<std::filesystem::path, 2> mountpoints;
  std::array<Bytes, 2> inits;
  std::vector<std::string> arguments;  // of lazyfsd, as its keeper was told them
  enum class InFlight { none, serve, refuse } in_flight = InFlight::none;
  bool is_first = false;   // nobody has served these mounts yet
  bool has_rings = false;  // to a new keeper: as Signal::rings
  pid_t keeper = 0;
  pid_t daemon = 0;            // to a new keeper: who serves
  std::uint64_t restarts = 0;  // since the mounts were made
  std::string last_reason;     // of the last one
};

// As an anonymous file, to be inherited.
Result<Fd> write_handover(const Handover& handover);
Result<Handover> read_handover(const Fd& file);

// `unavailable` when the other side is gone. Never blocks.
Result<void> send_signal(const Fd& channel, Signal signal);

}  // namespace dsec::control
