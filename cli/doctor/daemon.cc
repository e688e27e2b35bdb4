// SPDX-License-Identifier: Apache-2.0
// The lazyfsd of the store, when one runs.
#include "base/json.h"
#include "cli/doctor/internal/host.h"
#include "control/client.h"
#include "control/wire.h"

namespace dsec::doctor {

namespace {

constexpr int kAnswerMs = 500;

Result<Json> status_of(const Fd& socket) {
  TRY(control::send_message(socket, {{"op", "status"}}));
  std::string rest;
  return control::reply_or_error(TRY(control::receive_message(socket, rest, kAnswerMs)));
}

}  // namespace

Findings examine_daemon(const DoctorOptions& options) {
  const auto socket = control::connect_to(control::daemon_dir(options.store) / "control", kAnswerMs);
  if (!socket && socket.error().code == ErrorCode::unavailable)
    return {fine("lazyfsd", "not running; it is started when it is needed")};
  const auto status = socket ? status_of(*socket) : tl::unexpected(socket.error());
  if (!status) {
    return {
        degraded("lazyfsd", status.error().message, "who wants a tree waits", "look into its log, `dsec fs status`")};
  }
  const Json keeper = status->value("keeper", Json());
  const bool kept = keeper.is_object() && keeper.value("pid", Json()).is_number();
  if (!kept) {
    return {degraded("lazyfsd", "running without its keeper", "when it dies, all who read from it fail",
                     "`dsec fs stop` when nothing is in use; the next start has a keeper again")};
  }
  return {fine("lazyfsd", fmt::format("running, {} restarts", keeper.value("restarts", std::uint64_t{0})))};
}

}  // namespace dsec::doctor
