// SPDX-License-Identifier: Apache-2.0
#include "daemon/served_mount.h"

#include "base/log.h"

namespace dsec::daemon {

using fuse::Session;

Result<MountedNames> ServedMount::open(const std::filesystem::path& path, std::shared_ptr<tree::Namespace> names,
                                       fuse::SessionOptions options, std::optional<fuse::Device> device) {
  if (device) {
    session_ = TRY(Session::go_on(names, std::move(*device), options));
  } else {
    fuse::clear_stale_mount(path);
    TRY(make_dirs(path));
    session_ = TRY(Session::mount(names, path, options));
  }
  return MountedNames{path, std::move(names), session_.get()};
}

void ServedMount::serve() {
  thread_ = std::thread([this] {
    if (const auto outcome = session_->run(); !outcome) {
      log(LogLevel::error, "session_ended", {{"reason", outcome.error().message}});
    }
  });
}

ServedMount::~ServedMount() {
  if (!thread_.joinable()) return;
  session_->unmount();
  thread_.join();
}

Session::Drained ServedMount::stop(std::chrono::milliseconds patience) {
  if (!thread_.joinable()) return Session::Drained::yes;
  session_->unmount();
  return drain(patience);
}

Session::Drained ServedMount::drain(std::chrono::milliseconds patience) {
  const auto drained = session_->drain(patience);
  if (drained == Session::Drained::yes && thread_.joinable()) thread_.join();
  return drained;
}

}  // namespace dsec::daemon
