// SPDX-License-Identifier: Apache-2.0
// Local copies that tell whether they are whole.
#pragma once

#include <filesystem>
#include <functional>

#include "base/bytes.h"
#include "base/mapping.h"
#include "base/result.h"

namespace dsec::store {

// A file whose last 16 bytes are a seal: checksum64 of all before them, and a magic number (both little-endian).
// Content that a reader knows by its length or format can be used in place, since the seal comes after it.
class SealedFile {
 public:
  // Maps `path` and checks the seal, which reads all of it: some GB/s from the page cache. `not_found` when there is no
  // such file, `corrupt` when the seal does not fit.
  static Result<SealedFile> open(const std::filesystem::path& path);
  // Puts a new file in place by rename. It is not synced: what a crash leaves of it has no valid seal. `stop` may be
  // none; it is asked before each kSliceBytes, and when it says true nothing is put in place: `unavailable`.
  static Result<void> write(const std::filesystem::path& tmp_dir, const std::filesystem::path& path, ByteView content,
                            const std::function<bool()>& stop = nullptr);
  static constexpr std::size_t kSliceBytes = 4 << 20;

  // Content that could not be written, kept in memory.
  static SealedFile in_memory(Bytes content);

  // Valid as long as this lives.
  [[nodiscard]] ByteView content() const;
  [[nodiscard]] bool is_in_memory() const { return mapping_.view().empty(); }

 private:
  SealedFile() = default;
  Mapping mapping_;
  Bytes memory_;
};

}  // namespace dsec::store
