// SPDX-License-Identifier: Apache-2.0
// dsec-monitor: one process per running sandbox. Started by run_sandbox() and by nobody else.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "launcher/internal/monitor_protocol.h"
#include "launcher/internal/spec_json.h"
#include "launcher/monitor/monitor.h"
#include "launcher/monitor/outcome.h"

namespace dsec::launcher {

namespace {

constexpr std::uint64_t kMaxSpec = 64u << 20;

Result<SandboxSpec> read_spec(const Fd& document) {
  const Bytes text = TRY(read_all(document, kMaxSpec, "the specification"));
  return spec_from_json(as_text(text));
}

// The client may be dead, then there is nobody to tell. Our copies of its descriptors go first, so that it and whoever
// reads the command's output need not wait for what we still have to delete.
void answer(Fd& pipe, const SandboxResult& result) {
  const Result<Fd> null = open_file("/dev/null", O_RDWR);
  for (int fd = 0; null && fd <= 2; ++fd) ::dup2(null->get(), fd);
  std::ignore = write_all(pipe, as_bytes(result_to_json(result)));
  pipe.reset();
}

int main_program() {
  for (const int fd : {kSpecFd, kResultFd, kControlFd}) {
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
      std::fputs("dsec-monitor is started by dsec; there is no use in starting it by hand\n", stderr);
      return 2;
    }
  }
  ::fcntl(kLowerMountFd, F_SETFD, FD_CLOEXEC);  // there may be none
  const Fd document(kSpecFd);
  Fd pipe(kResultFd);
  const Fd control(kControlFd);
  const Result<SandboxSpec> spec = read_spec(document);
  if (spec)
    run_monitor(*spec, control, [&](const SandboxResult& result) { answer(pipe, result); });
  else
    answer(pipe, infra_result("infra_monitor", spec.error().message));
  return 0;
}

}  // namespace

}  // namespace dsec::launcher

int main() { return dsec::launcher::main_program(); }
