// SPDX-License-Identifier: Apache-2.0
#include "tree/internal/dir_merge.h"

#include <algorithm>

namespace dsec::tree {

using format::DirentView;
using format::FileType;
using Kind = ListedEntry::Kind;

namespace {

// What a dirent says of its inode's type (EROFS_FT_*).
constexpr std::uint8_t kHintDirectory = 2;
constexpr std::uint8_t kHintCharDevice = 3;  // or a whiteout

// The entries of one part that are still to come.
struct Source {
  std::vector<DirentView> entries;
  std::size_t next = 0;
  [[nodiscard]] const DirentView& head() const { return entries[next]; }
};

Result<std::vector<DirentView>> entries_of(const DirPart& part) {
  std::vector<DirentView> entries;
  const format::InodeView directory = TRY(part.image->inode(part.place.nid));
  TRY(part.image->for_each_entry(directory, [&](const DirentView& entry) {
    if (entry.name != "." && entry.name != "..") entries.push_back(entry);
    return true;
  }));
  return entries;
}

// All parts that have one name, from top to bottom, and what shows of them.
class Name {
 public:
  Result<void> add(const DirPart& part, const DirentView& entry) {
    if (closed_) return {};
    const bool is_directory = entry.file_type == kHintDirectory;
    if (directories_ == 0 && !shown_ && (entry.file_type != kHintCharDevice || TRY(is_device(part, entry)))) {
      shown_ = true;
      entry_ = {entry.name, {part.place.layer, entry.nid}, Kind::pure, entry.file_type};
    }
    closed_ = !is_directory;
    if (!is_directory) return {};
    if (++directories_ > 1) entry_.kind = Kind::merged;
    last_ = &part;
    last_nid_ = entry.nid;
    return {};
  }
  // Before another part adds to it: an opaque directory ends it.
  Result<void> prepare_for_more() {
    if (closed_ || last_ == nullptr) return {};
    const format::InodeView inode = TRY(last_->image->inode(last_nid_));
    closed_ = TRY(last_->image->is_opaque(inode));
    return {};
  }
  [[nodiscard]] bool shown() const { return shown_; }
  [[nodiscard]] bool is_directory() const { return directories_ > 0; }
  [[nodiscard]] const ListedEntry& entry() const { return entry_; }

 private:
  static Result<bool> is_device(const DirPart& part, const DirentView& entry) {
    return TRY(part.image->inode(entry.nid)).type != FileType::whiteout;
  }

  ListedEntry entry_;
  const DirPart* last_ = nullptr;
  std::uint64_t last_nid_ = 0;
  std::size_t directories_ = 0;
  bool closed_ = false;
  bool shown_ = false;
};

// The common case: no other layer has anything here.
Result<void> list_one(const DirPart& part, const std::function<void(const ListedEntry&, bool)>& visit) {
  for (const DirentView& entry : TRY(entries_of(part))) {
    Name name;
    TRY(name.add(part, entry));
    if (name.shown()) visit(name.entry(), name.is_directory());
  }
  return {};
}

}  // namespace

Result<void> merge_directory(std::span<const DirPart> parts,
                             const std::function<void(const ListedEntry&, bool)>& visit) {
  if (parts.size() == 1) return list_one(parts.front(), visit);
  std::vector<Source> sources;
  std::vector<std::size_t>
      heap;  // of sources that are not at their end: the least name on top, of equals the uppermost
  for (const DirPart& part : parts) {
    sources.push_back({TRY(entries_of(part)), 0});
    if (!sources.back().entries.empty()) heap.push_back(sources.size() - 1);
  }
  const auto comes_later = [&](std::size_t a, std::size_t b) {
    const int order = sources[a].head().name.compare(sources[b].head().name);
    return order != 0 ? order > 0 : a > b;
  };
  std::make_heap(heap.begin(), heap.end(), comes_later);
  while (!heap.empty()) {
    Name name;
    const std::string_view text = sources[heap.front()].head().name;
    for (bool first = true; !heap.empty() && sources[heap.front()].head().name == text; first = false) {
      if (!first) TRY(name.prepare_for_more());
      std::pop_heap(heap.begin(), heap.end(), comes_later);
      Source& source = sources[heap.back()];
      TRY(name.add(parts[heap.back()], source.head()));
      if (++source.next == source.entries.size())
        heap.pop_back();
      else
        std::push_heap(heap.begin(), heap.end(), comes_later);
    }
    if (name.shown()) visit(name.entry(), name.is_directory());
  }
  return {};
}

}  // namespace dsec::tree
