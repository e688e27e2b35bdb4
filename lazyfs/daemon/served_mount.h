// SPDX-License-Identifier: Apache-2.0
// A mount and the thread that serves it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/attachments.h"
#include "fuse/device.h"
#include "fuse/session.h"

namespace dsec::daemon {

class ServedMount {
 public:
  ServedMount() = default;
  ~ServedMount();
  ServedMount(const ServedMount&) = delete;
  ServedMount& operator=(const ServedMount&) = delete;

  // Takes the device over, or mounts on `path` when there is none. Requests wait until serve(): what is attached
  // already when they are read.
  Result<MountedNames> open(const std::filesystem::path& path, std::shared_ptr<tree::Namespace> names,
                            fuse::SessionOptions options, std::optional<fuse::Device> device);
  void serve();

  // Unmounts; users get ENOTCONN. `no` when a thread still hangs after `patience`: this cannot be destroyed then.
  [[nodiscard]] fuse::Session::Drained stop(std::chrono::milliseconds patience);
  // Answers what was asked and leaves the mount to a successor.
  [[nodiscard]] fuse::Session::Drained drain(std::chrono::milliseconds patience);

  [[nodiscard]] const fuse::Session& session() const { return *session_; }

 private:
  std::unique_ptr<fuse::Session> session_;
  std::thread thread_;
};

}  // namespace dsec::daemon
