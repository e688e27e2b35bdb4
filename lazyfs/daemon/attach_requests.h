// SPDX-License-Identifier: Apache-2.0
// The control requests by which environments come and go.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "daemon/attachments.h"
#include "daemon/control_server.h"
#include "daemon/known_store.h"
#include "daemon/leases.h"
#include "daemon/prefetch_jobs.h"

namespace dsec::daemon {

// Thread-safe.
class AttachRequests {
 public:
  // All of them live longer.
  struct Parts {
    Attachments* attachments = nullptr;
    PrefetchJobs* prefetch = nullptr;
    Leases* leases = nullptr;
    const StoreCheck* store_check = nullptr;
    std::function<bool()> is_leaving;  // connections that end then are no end of a lease: we cut them ourselves
  };
  explicit AttachRequests(Parts parts) : parts_(std::move(parts)) {}

  // Control requests:
  //   {"env", "view", "owner", "leased", "purpose"?, "rootfs_mode"?}
  //                {"path", "has_xattrs", "why_not", "recorded"}, and with an object root its descriptor; "why_not"
  //                says why there is none when the caller would do without. A leased owner leaves with its connection.
  Result<Json> attach(const Json& request, ControlServer::Peer& peer);
  //   {"owner"}    {}
  Result<Json> detach(const Json& request);
  //   {"env"}      {"store_bytes", "read_bytes", "reads"}
  Result<Json> usage(const Json& request);

  // The owner of a lease has gone.
  void detach_owner(const std::string& owner);

 private:
  Result<std::string> choose_root(const Json& request, const Digest& env, ControlServer::Peer& peer);

  Parts parts_;
};

}  // namespace dsec::daemon
