// SPDX-License-Identifier: Apache-2.0
// Files that appear whole or not at all.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace dsec {

// A file under construction in a temporary directory of the same file system. commit() syncs it, renames it to its
// place and syncs that directory, in this order; a crash at any point leaves either no file or the whole one, and at
// most litter in the temporary directory. The destructor removes what was not committed; it never commits.
class AtomicFile {
 public:
  // `tmp_dir` must exist. The file's mode is 0644 whatever the umask: a store is read by others.
  static Result<AtomicFile> create(const std::filesystem::path& tmp_dir);

  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) noexcept;
  ~AtomicFile();

  [[nodiscard]] const Fd& fd() const { return fd_; }
  Result<void> write(ByteView bytes);
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // Replaces what `path` names. Missing parent directories are created and made durable.
  Result<void> commit(const std::filesystem::path& path);
  // The same without syncing anything, in an existing directory: readers see the old file or the new one, but after a
  // crash of the machine it may be empty or cut. For caches whose content is checked whenever it is read.
  Result<void> replace(const std::filesystem::path& path);

 private:
  AtomicFile(Fd fd, std::filesystem::path tmp_path) : fd_(std::move(fd)), tmp_path_(std::move(tmp_path)) {}

  Fd fd_;
  std::filesystem::path tmp_path_;  // empty once committed or moved from
  std::uint64_t size_ = 0;
};

// Removes what processes that have been killed had begun to write. For who owns `tmp_dir`; nobody else may write there.
void remove_unfinished_files(const std::filesystem::path& tmp_dir);

struct UnfinishedFiles {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};
// What is being written in `tmp_dir`, or was by processes that have been killed. What cannot be looked at is left out.
UnfinishedFiles count_unfinished_files(const std::filesystem::path& tmp_dir);
// Removes those that nobody has written to or touched for `age`, as the file system counts time: processes of several
// machines, whose clocks differ, may write there. What was removed; an error when `tmp_dir` cannot be written.
Result<UnfinishedFiles> remove_unfinished_files(const std::filesystem::path& tmp_dir, std::chrono::seconds age);

// create, write, commit in one step.
Result<void> write_file_atomic(const std::filesystem::path& tmp_dir, const std::filesystem::path& path, ByteView bytes);

}  // namespace dsec
