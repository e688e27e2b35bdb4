// SPDX-License-Identifier: Apache-2.0
#include "base/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace dsec {

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

void Mapping::populate() const {
#ifdef MADV_POPULATE_READ
  if (data_ != nullptr) ::madvise(const_cast<std::uint8_t*>(data_), size_, MADV_POPULATE_READ);
#endif
}

Result<Mapping> Mapping::of_file(const std::filesystem::path& path) {
  const Fd fd = TRY(open_file(path, O_RDONLY));
  return TRY_IN(path.native(), of_fd(fd));
}

Result<Mapping> Mapping::of_fd(const Fd& fd) {
  const struct stat st = TRY(stat_fd(fd));
  Mapping mapping;
  if (st.st_size == 0) return mapping;
  const auto size = static_cast<std::size_t>(st.st_size);
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return fail_sys(errno, fmt::format("map {} bytes", size));
  mapping.data_ = static_cast<const std::uint8_t*>(data);
  mapping.size_ = size;
  return mapping;
}

}  // namespace dsec
