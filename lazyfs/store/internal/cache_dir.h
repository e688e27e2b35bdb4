// SPDX-License-Identifier: Apache-2.0
// The directory of the node cache: blocks of packs on a local disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/guarded.h"
#include "base/lock_file.h"
#include "base/result.h"
#include "io/read_engine.h"
#include "store/internal/window_index.h"

namespace dsec::store {

struct CacheUse {
  std::uint64_t used_bytes = 0;
  std::size_t windows = 0;
};

struct Evicted {
  std::uint64_t bytes = 0;
  std::size_t windows = 0;
};

// Two files and a lock: `data` has a slot of one window after another, sparse; `index` has one record a slot. A slot is
// wiped (its record zeroed, its space punched out) before it takes another window.
//
// Nothing is synced. A record may reach the disk before its data, or either be torn; then the checksums do not fit and
// the block is missing. What is read back is therefore what was written or is dropped, whenever the process was killed
// or the machine lost power.
//
// Thread-safe, but for one writer: write(), trim() and save_uses() are for one thread.
class CacheDir {
 public:
  // Makes what is missing and reads the index: one sequential read of 512 bytes a window. `exists` when another process
  // has the directory, `unsupported` when its file system cannot punch holes, otherwise as the system says.
  static Result<std::unique_ptr<CacheDir>> open(const std::filesystem::path& dir,
                                                std::shared_ptr<io::ReadEngine> engine, std::size_t max_windows);

  // How many of the blocks [first, first + limit) lie back to back from `first` on and are not here.
  std::uint64_t missing_run(const Digest& pack, std::uint64_t first, std::uint64_t limit);

  // Block `first` and those after it, at least one and at most `limit`, all of one window. `not_found` when it is not
  // here. `corrupt`: bytes were not as written; `io` and others: the disk failed. The window is dropped then.
  Result<Bytes> read(const Digest& pack, std::uint64_t first, std::uint64_t limit, Deadline deadline);

  // Whole blocks from `first` on; only the last block of a pack may be shorter. `no_space` also when there are
  // max_windows windows. What was written before an error stays.
  Result<void> write(const Digest& pack, std::uint64_t pack_bytes, std::uint64_t first, ByteView bytes);

  // Forgets the windows with these blocks.
  void drop(const Digest& pack, std::uint64_t first, std::uint64_t count);
  // Evicts about `bytes` bytes of windows that nobody reads now and wipes them.
  Evicted evict(std::uint64_t bytes);
  // Wipes what was dropped.
  Result<void> wipe_dead();
  // Gives space back that belongs to no block: what was written but not recorded when the process was killed.
  Result<void> trim();
  // Writes records whose use changed, so that it is known after a restart.
  Result<void> save_uses();

  // False when the files were deleted under us.
  [[nodiscard]] bool is_intact() const;
  [[nodiscard]] CacheUse use() const;
  [[nodiscard]] const Fd& data() const { return *files_.data; }

 private:
  struct Files {
    LockFile lock;
    std::shared_ptr<const Fd> data;
    Fd index;
  };
  CacheDir(Files files, std::shared_ptr<io::ReadEngine> engine, std::size_t max_windows)
      : files_(std::move(files)), engine_(std::move(engine)), index_(WindowIndex(max_windows)) {}
  Result<void> load();
  Result<void> write_window(const Digest& pack, std::uint64_t pack_bytes, std::uint64_t first, ByteView bytes);
  Result<void> write_record(SlotId slot, ByteView record) const;
  void drop_slot(SlotId slot);

  Files files_;
  std::shared_ptr<io::ReadEngine> engine_;
  mutable Guarded<WindowIndex> index_;
};

}  // namespace dsec::store
