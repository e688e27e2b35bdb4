// SPDX-License-Identifier: Apache-2.0
// Merged images on the disk of this node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/lock_file.h"
#include "base/result.h"

namespace dsec::daemon {

// A directory with one sealed file (store/sealed_file.h) for each environment that has a merged image, bounded by a
// quota: the least recently used ones go, by their modification times. Whoever has a removed one mounted keeps it.
// Several processes may use one directory. Thread-safe.
class MergedDir {
 public:
  MergedDir(std::filesystem::path dir, std::uint64_t quota_bytes) : dir_(std::move(dir)), quota_bytes_(quota_bytes) {}

  // Makes the directory when there is none; removes what killed processes left, unless another process that lives has
  // the directory, images of other versions of the format, and what is beyond the quota.
  Result<void> prepare();

  // Mounts the image of an environment, read-only and detached, and marks it as used. All of it is compared with its
  // checksum before. `not_found`; `corrupt`: it was damaged or could not be read, is removed, and there is none now.
  Result<Fd> mount(const Digest& env);
  void mark_used(const Digest& env);

  // Keeps an image, then removes others until the quota is kept. `unsupported` when it is larger than the quota itself;
  // `stop` as SealedFile::write() has it; other errors are those of the file system.
  Result<void> put(const Digest& env, ByteView image, const std::function<bool()>& stop);

  struct Usage {
    std::uint64_t images = 0;
    std::uint64_t bytes = 0;
  };
  // As this process last saw it.
  [[nodiscard]] Usage usage() const;
  [[nodiscard]] std::uint64_t quota_bytes() const { return quota_bytes_; }

 private:
  [[nodiscard]] std::filesystem::path path_of(const Digest& env) const;
  [[nodiscard]] std::filesystem::path tmp_dir() const { return dir_ / "tmp"; }
  void trim();

  std::filesystem::path dir_;
  std::uint64_t quota_bytes_;
  mutable std::mutex mutex_;      // for all below; held while the directory is listed
  std::optional<LockFile> lock_;  // none: another process has it
  Usage usage_;
};

}  // namespace dsec::daemon
