// SPDX-License-Identifier: Apache-2.0
// dir:PATH, a live directory as one layer: every entry as it is, in byte order of names, across mounts as tar does.
#include <fcntl.h>

#include <map>
#include <utility>

#include "base/fd.h"
#include "composer/sources/internal/byte_stream.h"
#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/live_file.h"
#include "composer/sources/internal/openers.h"

namespace dsec::composer {

using format::FileType;

namespace {

// Walks the tree with a stack of its own. Only the innermost kOpenLevels directories stay open; an outer one is opened
// again through ".." of the one inside, and must then be the same.
class DirWalk {
 public:
  DirWalk(LayerBuilder& builder, ContentSink& sink, const Progress& progress)
      : builder_(builder), sink_(sink), progress_(progress) {}

  Result<void> run(Fd root) {
    TRY(builder_.add(".", TRY(read_live_directory(root))));
    TRY(enter(std::move(root), 0));
    while (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.next == level.names.size()) {
        TRY_IN(where(), leave());
        continue;
      }
      const std::string name = std::move(level.names[level.next++]);
      const std::size_t length = path_.size();
      path_.append(path_.empty() ? "" : "/").append(name);
      TRY(visit(name, length));
    }
    return {};
  }

 private:
  static constexpr std::size_t kOpenLevels = 64;

  struct Level {
    Fd fd;
    dev_t dev = 0;
    ino_t ino = 0;
    std::vector<std::string> names;
    std::size_t next = 0;
    std::size_t path_length = 0;  // of path_ outside this directory
  };

  [[nodiscard]] std::string where() const { return fmt::format("\"{}\"", shown(path_.empty() ? "." : path_)); }

  Result<void> visit(const std::string& name, std::size_t outer_length) {
    LiveEntry entry = TRY_IN(where(), read_live_entry(levels_.back().fd, name));
    if (entry.inode.type == FileType::directory) {
      TRY(builder_.add(path_, std::move(entry.inode)));
      return enter(std::move(entry.fd), outer_length);
    }
    TRY(put(std::move(entry)));
    path_.resize(outer_length);
    return {};
  }

  Result<void> put(LiveEntry entry) {
    if (entry.attributes.st_nlink > 1) {
      const auto [known, is_new] = names_.try_emplace({entry.attributes.st_dev, entry.attributes.st_ino}, path_);
      if (!is_new) return builder_.link(path_, known->second);
    }
    const bool has_content = entry.inode.type == FileType::regular && entry.inode.size > 0;
    const std::uint64_t size = entry.inode.size;
    const InodeId id = TRY(builder_.add(path_, std::move(entry.inode)));
    if (!has_content) return {};
    TRY(sink_.begin());
    TRY_IN(where(), copy_live_content(entry.fd, entry.attributes, sink_, [this](std::uint64_t bytes) { seen(bytes); }));
    builder_.set_content(id, size, TRY(sink_.end()));
    return {};
  }

  Result<void> enter(Fd fd, std::size_t outer_length) {
    Level level;
    level.names = TRY_IN(where(), list_directory(fd));
    const struct stat attributes = TRY_IN(where(), stat_fd(fd));
    level.dev = attributes.st_dev;
    level.ino = attributes.st_ino;
    level.fd = std::move(fd);
    level.path_length = outer_length;
    levels_.push_back(std::move(level));
    if (levels_.size() > kOpenLevels) levels_[levels_.size() - 1 - kOpenLevels].fd.reset();
    return {};
  }

  Result<void> leave() {
    const Level inner = std::move(levels_.back());
    levels_.pop_back();
    path_.resize(inner.path_length);
    if (levels_.empty() || levels_.back().fd.valid()) return {};
    Level& outer = levels_.back();
    Fd fd = TRY(open_at(inner.fd, "..", O_RDONLY | O_DIRECTORY));
    const struct stat attributes = TRY(stat_fd(fd));
    if (attributes.st_dev != outer.dev || attributes.st_ino != outer.ino) {
      return fail(ErrorCode::io, "a directory was moved while it was read");
    }
    outer.fd = std::move(fd);
    return {};
  }

  void seen(std::uint64_t bytes) {
    total_ += bytes;
    if (!progress_ || total_ - said_ < kStreamBufferBytes) return;
    said_ = total_;
    progress_(total_);
  }

  LayerBuilder& builder_;
  ContentSink& sink_;
  const Progress& progress_;
  std::string path_;
  std::vector<Level> levels_;
  std::map<std::pair<dev_t, ino_t>, std::string> names_;  // first paths of files with several
  std::uint64_t total_ = 0;
  std::uint64_t said_ = 0;
};

class DirLayer : public LayerStream {
 public:
  explicit DirLayer(SourceSpec spec) : spec_(std::move(spec)) {}
  [[nodiscard]] std::string description() const override { return spec_.spec; }

  Result<void> apply(LayerBuilder& builder, ContentSink& sink, const Progress& progress) override {
    Fd root = TRY_IN(spec_.spec, open_file(spec_.rest, O_RDONLY | O_DIRECTORY));
    TRY_IN(spec_.spec, DirWalk(builder, sink, progress).run(std::move(root)));
    return {};
  }

 private:
  SourceSpec spec_;
};

class DirSource : public Source {
 public:
  explicit DirSource(SourceSpec spec) : spec_(std::move(spec)) {}
  [[nodiscard]] std::size_t layer_count() const override { return 1; }
  Result<std::unique_ptr<LayerStream>> layer(std::size_t /*index*/) override {
    return std::make_unique<DirLayer>(spec_);
  }

 private:
  SourceSpec spec_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_dir(const SourceSpec& spec) {
  TRY_IN(spec.spec, open_file(spec.rest, O_RDONLY | O_DIRECTORY));
  return std::make_unique<DirSource>(spec);
}

}  // namespace dsec::composer
