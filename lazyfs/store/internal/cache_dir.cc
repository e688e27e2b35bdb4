// SPDX-License-Identifier: Apache-2.0
#include "store/internal/cache_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace dsec::store {

namespace {

constexpr std::string_view kHeader = "dsec node cache, version 1\n";
// The index is read in pieces of this size.
constexpr std::size_t kLoadBytes = 1 << 20;
// Space that belongs to no block is given back when it is more than this.
constexpr std::uint64_t kTrimSlackBytes = 16 << 20;
// Records that one save_uses() writes.
constexpr std::size_t kUsesAtOnce = 1024;

std::uint64_t slot_offset(SlotId slot) { return slot * kWindowBytes; }
off_t record_offset(SlotId slot) { return static_cast<off_t>((std::uint64_t{slot} + 1) * kWindowRecordBytes); }

Result<void> pwrite_all(const Fd& fd, ByteView bytes, off_t offset, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd.get(), bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_sys(errno, fmt::format("write the {} of the node cache", what));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
  return {};
}

Result<void> punch(const Fd& fd, std::uint64_t offset, std::uint64_t length) {
  if (::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(length)) != 0) {
    return fail_sys(errno, "give back space of the node cache");
  }
  return {};
}

// The number of set bits from bit `first` on, before the first that is not set.
std::uint64_t run_of(std::uint64_t members, unsigned first) {
  return static_cast<unsigned>(std::countr_one(members >> first));
}

std::size_t bytes_of_blocks(std::uint64_t pack_bytes, std::uint64_t first, std::uint64_t count) {
  return std::min((first + count) * kBlockBytes, pack_bytes) - first * kBlockBytes;
}

// Lets go of a slot at the end of a scope.
class Pin {
 public:
  Pin(Guarded<WindowIndex>& index, SlotId slot) : index_(index), slot_(slot) {}
  ~Pin() { index_.lock()->unpin(slot_); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  Guarded<WindowIndex>& index_;
  SlotId slot_;
};

}  // namespace

Result<std::unique_ptr<CacheDir>> CacheDir::open(const std::filesystem::path& dir,
                                                 std::shared_ptr<io::ReadEngine> engine, std::size_t max_windows) {
  TRY(make_dirs(dir));
  LockFile lock = TRY(LockFile::try_take_over(dir / "lock"));
  auto data = std::make_shared<const Fd>(TRY(open_file(dir / "data", O_RDWR | O_CREAT, 0600)));
  Files files{std::move(lock), std::move(data), TRY(open_file(dir / "index", O_RDWR | O_CREAT, 0600))};
  TRY(punch(*files.data, std::uint64_t{1} << 40, kBlockBytes));
  auto opened = std::unique_ptr<CacheDir>(new CacheDir(std::move(files), std::move(engine), max_windows));
  TRY(opened->load());
  return opened;
}

Result<void> CacheDir::load() {
  const std::uint64_t size = static_cast<std::uint64_t>(TRY(stat_fd(files_.index)).st_size);
  Bytes header(kWindowRecordBytes);
  if (size < header.size() || !pread_exact(files_.index, header, 0) ||
      as_text(header).substr(0, kHeader.size()) != kHeader) {
    if (::ftruncate(files_.index.get(), 0) != 0 || ::ftruncate(files_.data->get(), 0) != 0) {
      return fail_sys(errno, "empty the node cache");
    }
    header.assign(header.size(), 0);
    std::copy(kHeader.begin(), kHeader.end(), header.begin());
    return pwrite_all(files_.index, header, 0, "index");
  }
  auto index = index_.lock();
  const SlotId count = static_cast<SlotId>(size / kWindowRecordBytes - 1);
  index->expect(count);
  Bytes part;
  for (SlotId slot = 0; slot < count;) {
    part.resize(std::min<std::size_t>(kLoadBytes, (count - slot) * kWindowRecordBytes));
    TRY(pread_exact(files_.index, part, static_cast<std::uint64_t>(record_offset(slot))));
    for (std::size_t at = 0; at < part.size(); at += kWindowRecordBytes, ++slot) {
      auto record = read_window_record(ByteView(part).subspan(at, kWindowRecordBytes));
      if (record) index->restore(slot, std::move(*record));
    }
  }
  index->finish_restore(count);
  return {};
}

std::uint64_t CacheDir::missing_run(const Digest& pack, std::uint64_t first, std::uint64_t limit) {
  auto index = index_.lock();
  std::uint64_t run = 0;
  while (run < limit) {
    const std::uint64_t block = first + run;
    const auto slot = index->find(pack, static_cast<std::uint32_t>(block / kWindowBlocks));
    const std::uint64_t left = kWindowBlocks - block % kWindowBlocks;
    const std::uint64_t missing =
        slot ? std::min(left, run_of(~index->blocks(*slot).members(), block % kWindowBlocks)) : left;
    run += missing;
    if (missing < left) break;
  }
  return std::min(run, limit);
}

Result<Bytes> CacheDir::read(const Digest& pack, std::uint64_t first, std::uint64_t limit, Deadline deadline) {
  auto index = index_.lock();
  const auto inside = static_cast<unsigned>(first % kWindowBlocks);
  const auto slot = index->find(pack, static_cast<std::uint32_t>(first / kWindowBlocks));
  if (!slot || !index->blocks(*slot).has(inside)) return fail(ErrorCode::not_found, "not in the node cache");
  const BlockSums& blocks = index->blocks(*slot);
  const std::uint64_t count = std::min(limit, run_of(blocks.members(), inside));
  std::array<std::uint32_t, kWindowBlocks> sums;
  for (unsigned i = 0; i < count; ++i) sums[i] = blocks.sum(inside + i);
  const std::size_t length = bytes_of_blocks(index->pack_bytes(*slot), first, count);
  index->touch(*slot);
  index->pin(*slot);
  index.unlock();
  const Pin pin(index_, *slot);
  auto bytes = engine_->read(files_.data, slot_offset(*slot) + inside * kBlockBytes, length, deadline);
  if (!bytes) {
    if (bytes.error().code != ErrorCode::timeout) drop_slot(*slot);
    return bytes;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * kBlockBytes;
    if (block_sum(ByteView(*bytes).subspan(at, std::min(kBlockBytes, length - at))) == sums[i]) continue;
    drop_slot(*slot);
    return fail(ErrorCode::corrupt, "block {} of pack {} in the node cache is not what was written", first + i,
                pack.hex());
  }
  return bytes;
}

Result<void> CacheDir::write(const Digest& pack, std::uint64_t pack_bytes, std::uint64_t first, ByteView bytes) {
  while (!bytes.empty()) {
    const std::uint64_t room = (kWindowBlocks - first % kWindowBlocks) * kBlockBytes;
    const ByteView part = bytes.first(std::min<std::size_t>(room, bytes.size()));
    TRY(write_window(pack, pack_bytes, first, part));
    bytes = bytes.subspan(part.size());
    first += blocks_of(part.size());
  }
  return {};
}

Result<void> CacheDir::write_window(const Digest& pack, std::uint64_t pack_bytes, std::uint64_t first, ByteView bytes) {
  auto claiming = index_.lock();
  const auto slot = claiming->claim(pack, pack_bytes, static_cast<std::uint32_t>(first / kWindowBlocks));
  if (!slot) return fail(ErrorCode::no_space, "the node cache has as many windows as it may");
  claiming->pin(*slot);
  claiming.unlock();
  const Pin pin(index_, *slot);
  const auto inside = static_cast<unsigned>(first % kWindowBlocks);
  const auto written =
      pwrite_all(*files_.data, bytes, static_cast<off_t>(slot_offset(*slot) + inside * kBlockBytes), "data");
  std::array<std::uint32_t, kWindowBlocks> sums;
  const std::uint64_t count = blocks_of(bytes.size());
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = block_sum(bytes.subspan(i * kBlockBytes, std::min(kBlockBytes, bytes.size() - i * kBlockBytes)));
  }
  WindowRecordBytes record;
  {
    auto index = index_.lock();
    if (!index->is_live(*slot)) return written;  // dropped meanwhile
    if (!written) {
      if (index->blocks(*slot).count() == 0) index->remove(*slot);
      return written;
    }
    for (unsigned i = 0; i < count; ++i) index->set_block(*slot, inside + i, sums[i]);
    record = write_window_record(index->record(*slot));
  }
  return write_record(*slot, record);
}

Result<void> CacheDir::write_record(SlotId slot, ByteView record) const {
  return pwrite_all(files_.index, record, record_offset(slot), "index");
}

void CacheDir::drop_slot(SlotId slot) {
  auto index = index_.lock();
  if (index->is_live(slot)) index->remove(slot);
}

void CacheDir::drop(const Digest& pack, std::uint64_t first, std::uint64_t count) {
  auto index = index_.lock();
  for (std::uint64_t window = first / kWindowBlocks; window * kWindowBlocks < first + count; ++window) {
    if (const auto slot = index->find(pack, static_cast<std::uint32_t>(window))) index->remove(*slot);
  }
}

Evicted CacheDir::evict(std::uint64_t bytes) {
  Evicted evicted;
  evicted.bytes = index_.lock()->evict(bytes, evicted.windows);
  // A slot that could not be wiped is used again all the same: its record does not fit what will be in it.
  [[maybe_unused]] const auto ignored = wipe_dead();
  return evicted;
}

Result<void> CacheDir::wipe_dead() {
  const std::vector<SlotId> dead = index_.lock()->take_dead();
  if (dead.empty()) return {};
  Result<void> outcome;
  const WindowRecordBytes none{};
  for (const SlotId slot : dead) {
    if (auto cleared = write_record(slot, none); !cleared) outcome = std::move(cleared);
    if (auto punched = punch(*files_.data, slot_offset(slot), kWindowBytes); !punched) outcome = std::move(punched);
  }
  index_.lock()->release(dead);
  return outcome;
}

Result<void> CacheDir::trim() {
  const struct stat st = TRY(stat_fd(*files_.data));
  if (static_cast<std::uint64_t>(st.st_blocks) * 512 <= use().used_bytes + kTrimSlackBytes) return {};
  const SlotId end = index_.lock()->end();
  for (SlotId slot = 0; slot < end; ++slot) {
    const std::uint64_t members = index_.lock()->blocks(slot).members();
    for (unsigned block = 0; block < kWindowBlocks;) {
      block += static_cast<unsigned>(run_of(members, block));
      if (block >= kWindowBlocks) break;
      const std::uint64_t gone = run_of(~members, block);
      TRY(punch(*files_.data, slot_offset(slot) + block * kBlockBytes, gone * kBlockBytes));
      block += static_cast<unsigned>(gone);
    }
  }
  const auto past_end = static_cast<std::uint64_t>(st.st_size);
  if (past_end > slot_offset(end)) TRY(punch(*files_.data, slot_offset(end), past_end - slot_offset(end)));
  return {};
}

Result<void> CacheDir::save_uses() {
  const std::vector<SlotId> touched = index_.lock()->take_touched(kUsesAtOnce);
  for (const SlotId slot : touched) {
    WindowRecordBytes record;
    auto index = index_.lock();
    if (!index->is_live(slot)) continue;
    index->pin(slot);
    record = write_window_record(index->record(slot));
    index.unlock();
    const Pin pin(index_, slot);
    TRY(write_record(slot, record));
  }
  return {};
}

bool CacheDir::is_intact() const {
  for (const Fd* fd : {files_.data.get(), &files_.index}) {
    const auto st = stat_fd(*fd);
    if (!st || st->st_nlink == 0) return false;
  }
  return true;
}

CacheUse CacheDir::use() const {
  auto index = index_.lock();
  return {index->used_bytes(), index->windows()};
}

}  // namespace dsec::store
