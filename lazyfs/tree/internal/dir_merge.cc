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
  // `directories` is used while this lives.
  explicit Name(std::vector<DirPart>& directories) : directories_(directories) { directories_.clear(); }

  Result<void> add(const DirPart& part, const DirentView& entry) {
    if (closed_) return {};
    const bool is_directory = entry.file_type == kHintDirectory;
    if (!shown_ && (entry.file_type != kHintCharDevice || TRY(is_device(part, entry)))) {
      shown_ = true;
      entry_ = {entry.name, {part.place.layer, entry.nid}, Kind::pure, entry.file_type};
    }
    closed_ = !is_directory;
    if (!is_directory) return {};
    directories_.push_back({part.image, {part.place.layer, entry.nid}});
    if (directories_.size() > 1) entry_.kind = Kind::merged;
    return {};
  }
  // Before another part adds to it: an opaque directory ends it.
  Result<void> prepare_for_more() {
    if (closed_ || directories_.empty()) return {};
    const DirPart& last = directories_.back();
    const format::InodeView inode = TRY(last.image->inode(last.place.nid));
    closed_ = TRY(last.image->is_opaque(inode));
    return {};
  }
  void tell(const VisitName& visit) const {
    if (shown_) visit(entry_, directories_);
  }

 private:
  static Result<bool> is_device(const DirPart& part, const DirentView& entry) {
    return TRY(part.image->inode(entry.nid)).type != FileType::whiteout;
  }

  ListedEntry entry_;
  std::vector<DirPart>& directories_;
  bool closed_ = false;
  bool shown_ = false;
};

// The common case: no other layer has anything here.
Result<void> list_one(const DirPart& part, const VisitName& visit) {
  std::vector<DirPart> directories;
  for (const DirentView& entry : TRY(entries_of(part))) {
    Name name(directories);
    TRY(name.add(part, entry));
    name.tell(visit);
  }
  return {};
}

}  // namespace

Result<void> merge_directory(std::span<const DirPart> parts, const VisitName& visit) {
  if (parts.size() == 1) return list_one(parts.front(), visit);
  std::vector<Source> sources;
  std::vector<DirPart> directories;
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
    Name name(directories);
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
    name.tell(visit);
  }
  return {};
}

Result<std::vector<DirPart>> root_parts(std::span<const std::shared_ptr<const store::Layer>> layers) {
  std::vector<DirPart> parts;
  for (auto i = static_cast<std::uint32_t>(layers.size()); i-- > 0;) {
    const format::ErofsView& image = layers[i]->view();
    parts.push_back({&image, {i, image.root_nid()}});
    const format::InodeView inode = TRY(image.inode(image.root_nid()));
    if (TRY(image.is_opaque(inode))) break;
  }
  return parts;
}

}  // namespace dsec::tree
