// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/require_root.h"

#include <unistd.h>

#include <ctime>

namespace dsec::launcher {

Result<void> require_root() {
  if (::geteuid() == 0) return {};
  return fail(ErrorCode::permission, "sandboxes need root for now (mounts and cgroups): run this as root or with sudo");
}

std::string now_rfc3339() {
  const std::time_t now = std::time(nullptr);
  struct tm utc {};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace dsec::launcher
