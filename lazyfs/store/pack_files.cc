// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <unordered_map>

#include "base/guarded.h"
#include "store/internal/disk_read_ahead.h"
#include "store/sources.h"

namespace dsec::store {

namespace {

struct PackFile {
  std::shared_ptr<const Fd> fd;
  std::uint64_t size_bytes = 0;
  std::shared_ptr<DiskReadAhead> ahead = std::make_shared<DiskReadAhead>();
};

// Open packs by digest, bounded.
class OpenPacks {
 public:
  explicit OpenPacks(std::size_t limit) : limit_(limit) {}

  Result<PackFile> open(const Store& store, const Digest& pack) {
    {
      auto open = open_.lock();
      if (const auto found = open->places.find(pack); found != open->places.end()) {
        open->order.splice(open->order.begin(), open->order, found->second);
        return found->second->second;
      }
    }
    auto fd = std::make_shared<const Fd>(TRY(open_file(store.pack_path(pack), O_RDONLY)));
    const struct stat st = TRY(stat_fd(*fd));
    PackFile file{std::move(fd), static_cast<std::uint64_t>(st.st_size)};
    auto open = open_.lock();
    if (open->places.find(pack) == open->places.end()) {
      open->order.emplace_front(pack, file);
      open->places.emplace(pack, open->order.begin());
      if (open->order.size() > limit_) {
        open->places.erase(open->order.back().first);
        open->order.pop_back();
      }
    }
    return file;
  }

  // After a failed read: the file may have been replaced below us (a network file system says ESTALE).
  void forget(const Digest& pack) {
    auto open = open_.lock();
    const auto found = open->places.find(pack);
    if (found == open->places.end()) return;
    open->order.erase(found->second);
    open->places.erase(found);
  }

 private:
  using Item = std::pair<Digest, PackFile>;
  struct Open {
    std::list<Item> order;  // most recent first
    std::unordered_map<Digest, std::list<Item>::iterator> places;
  };
  std::size_t limit_;
  Guarded<Open> open_;
};

class PackFilesReader final : public PackReader {
 public:
  PackFilesReader(Store store, std::shared_ptr<io::ReadEngine> engine, std::size_t max_open_packs,
                  ReadAheadOnDisk ahead)
      : store_(std::move(store)), engine_(std::move(engine)), packs_(max_open_packs), ahead_(ahead) {}

  Result<PackBytes> read(const PackRequest& request, Deadline deadline) override {
    auto bytes = try_read(request, deadline);
    if (bytes) {
      PackBytes given{std::make_shared<const Bytes>(std::move(*bytes))};
      given.length = given.store_bytes = given.buffer->size();
      return given;
    }
    packs_.forget(request.pack);
    return tl::unexpected(explained(std::move(bytes).error(), request.pack));
  }

  Result<std::uint64_t> size_of(const Digest& pack, Deadline) override {
    auto file = packs_.open(store_, pack);
    if (!file) return tl::unexpected(explained(std::move(file).error(), pack));
    return file->size_bytes;
  }

 private:
  // `unavailable` when it is the whole store that does not answer: its mount went away, or its server.
  [[nodiscard]] Error explained(Error error, const Digest& pack) const {
    error = std::move(error).within(fmt::format("pack {}", pack.hex()));
    const bool may_be_away = error.code == ErrorCode::not_found || error.code == ErrorCode::io;
    const bool is_away = may_be_away && ::access((store_.root() / "store.toml").c_str(), F_OK) != 0;
    if (is_away || error.sys == ETIMEDOUT) {  // a server that is waited for only so long, as of NFS with `soft`
      return Error{ErrorCode::unavailable, fmt::format("the store is not there: {}", error.message)};
    }
    return error;
  }

  Result<Bytes> try_read(const PackRequest& request, Deadline deadline) {
    const PackFile file = TRY(packs_.open(store_, request.pack));
    if (ahead_ == ReadAheadOnDisk::yes) file.ahead->about_to_read(*file.fd, request.offset, request.length);
    return engine_->read(file.fd, request.offset, request.length, deadline);
  }

  Store store_;
  std::shared_ptr<io::ReadEngine> engine_;
  OpenPacks packs_;
  ReadAheadOnDisk ahead_;
};

}  // namespace

std::unique_ptr<PackReader> pack_files(Store store, std::shared_ptr<io::ReadEngine> engine, std::size_t max_open_packs,
                                       ReadAheadOnDisk ahead) {
  return std::make_unique<PackFilesReader>(std::move(store), std::move(engine), max_open_packs, ahead);
}

}  // namespace dsec::store
