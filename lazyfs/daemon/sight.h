// SPDX-License-Identifier: Apache-2.0
// What there is to look at in a running daemon.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "daemon/attachments.h"
#include "daemon/chunk_stack.h"
#include "fuse/observe.h"

namespace dsec::daemon {

// All of it outlives whoever looks, and may be looked at from any thread.
struct Sight {
  const ChunkStack* chunks = nullptr;
  Attachments* attachments = nullptr;
  MergedImages* merged = nullptr;  // none: the settings say so
  std::shared_ptr<fuse::RequestTap> tap;
  std::string store;
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
};

}  // namespace dsec::daemon
