// SPDX-License-Identifier: Apache-2.0
// The records of pax extended headers: POSIX.1-2017 pax, "pax Extended Header", and those of GNU tar, star and
// libarchive that carry what POSIX has not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "composer/sources/internal/sparse_map.h"
#include "format/layer_tree.h"

namespace dsec::composer {

// What extended headers say about one entry. Names and values are raw bytes: no character set is ever converted.
struct PaxRecords {
  std::optional<std::string> path;
  std::optional<std::string> link;
  std::optional<std::uint64_t> size;
  std::optional<std::uint64_t> uid;
  std::optional<std::uint64_t> gid;
  std::optional<format::Timestamp> mtime;
  std::optional<std::uint64_t> major;
  std::optional<std::uint64_t> minor;
  format::Xattrs xattrs;    // SCHILY.xattr.* and LIBARCHIVE.xattr.*
  std::string access_acl;   // SCHILY.acl.access, as text
  std::string default_acl;  // SCHILY.acl.default

  // GNU.sparse.*; the forms 0.0 and 0.1 fill `segments`, 1.0 has its map in the data.
  struct Sparse {
    std::optional<std::uint64_t> major;
    std::optional<std::uint64_t> minor;
    std::optional<std::string> name;
    std::optional<std::uint64_t> real_size;
    std::optional<std::uint64_t> open_offset;  // of 0.0: its length comes next
    std::vector<SparseSegment> segments;
  };
  std::optional<Sparse> sparse;

  // True when something is said that can only be meant for a single entry.
  [[nodiscard]] bool names_one_entry() const { return path || link || size || sparse; }
};

// Adds the records of one header's data to `records`; later ones win. Keywords that carry nothing of ours (atime,
// ctime, uname, comment, those of other vendors) are ignored. `invalid` for a broken record, naming its keyword.
Result<void> parse_pax_records(std::string_view data, PaxRecords& records);

// "-1.25" as a time: seconds and a fraction, of which digits past nanoseconds are rounded down.
Result<format::Timestamp> parse_pax_time(std::string_view text);

}  // namespace dsec::composer
