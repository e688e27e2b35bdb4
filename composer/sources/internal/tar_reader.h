// SPDX-License-Identifier: Apache-2.0
// Tar archives, entry by entry.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "composer/sources/internal/byte_stream.h"
#include "composer/sources/internal/pax_records.h"
#include "composer/sources/internal/tar_header.h"
#include "format/layer_tree.h"

namespace dsec::composer {

// One entry as the archive has it: names are raw bytes and not checked.
struct TarEntry {
  std::string path;
  bool is_hard_link = false;
  std::string link;     // of a hard link: the path of the other name
  format::Inode inode;  // of anything else; a regular file's size is that of its content, holes counted
};

// A piece of a regular file's content: `hole` zero bytes, then `data`. Both empty: the end.
struct ContentPiece {
  std::uint64_t hole = 0;
  ByteView data;  // valid until the reader is used again
};

// Reads one archive from front to back in bounded memory: v7, ustar, pax, GNU and star headers, sparse files in all of
// GNU's forms. We parse tar ourselves because libarchive (3.6.2) alters what it reads: names are converted through the
// locale and composed to NFC, times before 1970 with a fraction are wrong, ACLs lose unnamed ids.
//
// Errors are `invalid` for a broken archive, `corrupt` for one that ends early, and those of the stream. They say at
// which byte the entry starts and, when it is known, its name. Not thread-safe.
class TarReader {
 public:
  // The two zero blocks at the end: archives in images are known whole by their digest and may lack them, elsewhere
  // their absence means that something was cut off. (An empty file is an empty archive in both.)
  enum class EndMarker { required, optional };

  TarReader(ByteStream& stream, EndMarker end_marker) : reader_(stream), end_marker_(end_marker) {}

  // Reads the next entry into `entry`; false at the end. Content that was not asked for is passed over.
  Result<bool> next(TarEntry& entry);
  // The next piece of the content of the entry that next() returned last.
  Result<ContentPiece> read_content();
  // Where the content of that entry starts in the stream, for entries that are not sparse.
  [[nodiscard]] std::uint64_t content_offset() const { return content_offset_; }
  [[nodiscard]] bool is_sparse() const { return sparse_; }

 private:
  enum class HeaderKind { entry, meta, end };
  struct Pending {  // what headers before an entry's own say about it
    PaxRecords pax;
    std::string long_name;
    std::string long_link;
    bool any = false;
  };

  Result<bool> read_entry(TarEntry& entry);
  Result<HeaderKind> read_header(TarHeader& header);
  Result<bool> take_meta(const TarHeader& header, Pending& pending);
  Result<std::string> read_meta(const TarHeader& header, std::uint64_t limit);
  Result<void> fill(const TarHeader& header, Pending& pending, TarEntry& entry);
  Result<void> fill_names(const TarHeader& header, Pending& pending, TarEntry& entry);
  Result<void> start_content(const TarHeader& header, Pending& pending, TarEntry& entry);
  Result<void> finish_content();
  Result<void> skip_stored(std::uint64_t count);

  StreamReader reader_;
  EndMarker end_marker_;
  PaxRecords global_;
  TarBlock block_{};  // the header at hand
  bool first_ = true;
  bool ended_ = false;

  // The content at hand.
  std::uint64_t content_offset_ = 0;
  bool sparse_ = false;
  std::vector<SparseSegment> segments_;
  std::size_t segment_ = 0;
  std::uint64_t position_ = 0;  // in the file
  std::uint64_t size_ = 0;      // of the file
  std::uint64_t stored_ = 0;    // bytes in the archive that are still to come
  std::uint64_t padding_ = 0;   // after them
};

}  // namespace dsec::composer
