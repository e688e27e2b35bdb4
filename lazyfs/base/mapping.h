// SPDX-License-Identifier: Apache-2.0
// Read-only memory mappings of files.
#pragma once

#include <filesystem>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace dsec {

// A whole file mapped read-only and private to the reader. The view is valid while the object lives; it may be moved.
// The file must not be truncated meanwhile (a read past the new end is SIGBUS): map only files that are immutable by
// contract and that belong to us.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  static Result<Mapping> of_file(const std::filesystem::path& path);
  static Result<Mapping> of_fd(const Fd& fd);

  [[nodiscard]] ByteView view() const { return {data_, size_}; }
  // Maps all pages now, with one call and large reads, where the kernel can (>= 5.14); only a matter of speed.
  void populate() const;

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dsec
