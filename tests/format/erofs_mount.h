// SPDX-License-Identifier: Apache-2.0
// A layer image mounted by the kernel.
#pragma once

#include <filesystem>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"

namespace dsec::format::test {

// Mounts an image read-only in a mount namespace of this process alone, from a file or, where the kernel cannot
// (before 6.12), through a loop device. The destructor unmounts and removes everything.
class ErofsMount {
 public:
  // `permission` without root; `unsupported` where the kernel has no EROFS.
  static Result<ErofsMount> of_image(ByteView image);

  ErofsMount(ErofsMount&& other) noexcept : dir_(std::exchange(other.dir_, {})) {}
  ErofsMount& operator=(ErofsMount&&) = delete;
  ~ErofsMount();

  [[nodiscard]] std::filesystem::path root() const { return dir_ / "mnt"; }
  [[nodiscard]] std::filesystem::path image() const { return dir_ / "image"; }

 private:
  explicit ErofsMount(std::filesystem::path dir) : dir_(std::move(dir)) {}
  std::filesystem::path dir_;
};

}  // namespace dsec::format::test
