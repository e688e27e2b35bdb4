// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "base/waiting.h"
#include "io/internal/range.h"
#include "io/read_engine.h"

namespace dsec::io {

namespace {

class SyncEngine final : public ReadEngine {
 public:
  Result<Bytes> read(const std::shared_ptr<const Fd>& fd, std::uint64_t offset, std::size_t length,
                     Deadline deadline) override {
    TRY(check_request(offset, length, deadline));
    Bytes bytes(length);
    const std::size_t done = read_cached(*fd, offset, bytes);
    if (done == length) return bytes;
    about_to_wait();
    TRY(pread_exact(*fd, std::span(bytes).subspan(done), offset + done));
    return bytes;
  }
};

}  // namespace

std::unique_ptr<ReadEngine> make_sync_engine() { return std::make_unique<SyncEngine>(); }

}  // namespace dsec::io
