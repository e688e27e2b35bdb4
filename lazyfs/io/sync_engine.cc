// SPDX-License-Identifier: Apache-2.0
#include "io/read_engine.h"

namespace dsec::io {

namespace {

class SyncEngine final : public ReadEngine {
 public:
  Result<void> read(const Fd& fd, std::uint64_t offset, std::span<std::uint8_t> out) override {
    return pread_exact(fd, out, offset);
  }
};

}  // namespace

std::unique_ptr<ReadEngine> make_sync_engine() { return std::make_unique<SyncEngine>(); }

}  // namespace dsec::io
