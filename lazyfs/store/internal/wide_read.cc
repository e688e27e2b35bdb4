// SPDX-License-Identifier: Apache-2.0
#include "store/internal/wide_read.h"

#include <fcntl.h>

#include <algorithm>
#include <span>

#include "base/fan_out.h"
#include "base/fd.h"
#include "base/guarded.h"

namespace dsec::store {

namespace {

constexpr std::size_t kPartBytes = 1 << 20;
constexpr unsigned kPartsAtOnce = 8;

}  // namespace

Result<Bytes> read_wide(const std::filesystem::path& path, std::uint64_t limit) {
  const Fd fd = TRY(open_file(path, O_RDONLY));
  const struct stat st = TRY(stat_fd(fd));
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if (size <= kPartBytes || size > limit) return read_all(fd, limit, path.native());
  Bytes bytes(size);
  Guarded<Result<void>> outcome;
  fan_out((size + kPartBytes - 1) / kPartBytes, kPartsAtOnce, [&](std::size_t part) {
    if (!*outcome.lock()) return;
    const std::size_t begin = part * kPartBytes;
    auto read = pread_exact(fd, std::span(bytes).subspan(begin, std::min(kPartBytes, bytes.size() - begin)), begin);
    if (!read) *outcome.lock() = tl::unexpected(read.error().within(path.native()));
  });
  TRY(std::move(*outcome.lock()));
  return bytes;
}

}  // namespace dsec::store
