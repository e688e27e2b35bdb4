// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <vector>

#include "base/waiting.h"
#include "io/internal/range.h"
#include "io/internal/ring.h"
#include "io/read_engine.h"

namespace dsec::io {

namespace {

class UringEngine final : public ReadEngine {
 public:
  explicit UringEngine(std::vector<std::unique_ptr<Ring>> rings) : rings_(std::move(rings)) {}

  Result<Bytes> read(const std::shared_ptr<const Fd>& fd, std::uint64_t offset, std::size_t length,
                     Deadline deadline) override {
    TRY(check_request(offset, length, deadline));
    Bytes buffer(length);
    // Copying from the page cache inside a ring would hold the ring's lock; here it holds nobody up.
    const std::size_t done = read_cached(*fd, offset, buffer);
    if (done == length) return buffer;
    about_to_wait();
    Ring& ring = *rings_[next_.fetch_add(1, std::memory_order_relaxed) % rings_.size()];
    return ring.read(fd, offset, std::move(buffer), done, deadline);
  }

 private:
  std::vector<std::unique_ptr<Ring>> rings_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace

Result<std::unique_ptr<ReadEngine>> make_uring_engine(UringOptions options) {
  const unsigned depth = std::clamp(options.depth, 1u, 4096u);
  const unsigned count = std::clamp(options.rings, 1u, std::min(16u, depth));
  std::vector<std::unique_ptr<Ring>> rings;
  for (unsigned i = 0; i < count; ++i) {
    rings.push_back(TRY(Ring::create(depth / count + (i < depth % count ? 1 : 0))));
  }
  return std::make_unique<UringEngine>(std::move(rings));
}

}  // namespace dsec::io
