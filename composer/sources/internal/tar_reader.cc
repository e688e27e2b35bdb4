// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/tar_reader.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/posix_acl.h"

namespace dsec::composer {

using format::FileType;
using format::Inode;

namespace {

constexpr std::uint64_t kMaxPaxBytes = std::uint64_t{8} << 20;       // of one extended header
constexpr std::uint64_t kMaxLongNameBytes = std::uint64_t{1} << 16;  // of a GNU long name
constexpr int kMaxMetaHeaders = 16;                                  // before one entry

bool is_regular(char type) { return type == '0' || type == '\0' || type == '7' || type == 'S'; }

std::uint64_t padding_after(std::uint64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

Result<FileType> type_of(char type) {
  switch (type) {
    case '0':
    case '\0':
    case '7':  // contiguous
    case 'S': return FileType::regular;
    case '2': return FileType::symlink;
    case '3': return FileType::char_device;
    case '4': return FileType::block_device;
    case '5':
    case 'D': return FileType::directory;  // D: GNU's, with a list of names as its data
    case '6': return FileType::fifo;
    default: return fail(ErrorCode::unsupported, "entry type \"{}\" is not supported", escaped({&type, 1}));
  }
}

Result<std::uint32_t> narrow(std::uint64_t value, const char* what) {
  if (value <= std::numeric_limits<std::uint32_t>::max()) return static_cast<std::uint32_t>(value);
  return fail(ErrorCode::invalid, "its {} {} does not fit 32 bits", what, value);
}

Result<void> set_acl(const char* name, std::string_view text, Inode& inode) {
  if (text.empty() || inode.xattrs.contains(name)) return {};  // the binary form is exact: it wins
  std::string value = TRY(acl_xattr_from_text(text));
  constexpr std::size_t kTrivialBytes = 4 + 3 * 8;  // user, group, other: the mode says the same
  const bool is_default = std::string_view(name).ends_with("default");
  if (value.size() > kTrivialBytes || (is_default && !value.empty())) inode.xattrs.emplace(name, std::move(value));
  return {};
}

Result<void> set_attributes(const TarHeader& header, PaxRecords& pax, Inode& inode) {
  inode = Inode{};
  inode.type = TRY(type_of(header.type));
  inode.mode = header.mode & 07777;
  inode.uid = TRY(narrow(pax.uid.value_or(header.uid), "uid"));
  inode.gid = TRY(narrow(pax.gid.value_or(header.gid), "gid"));
  inode.mtime = pax.mtime.value_or(format::Timestamp{header.mtime, 0});
  if (inode.type == FileType::char_device || inode.type == FileType::block_device) {
    inode.major = TRY(narrow(pax.major.value_or(header.major), "major device number"));
    inode.minor = TRY(narrow(pax.minor.value_or(header.minor), "minor device number"));
  }
  inode.xattrs = std::move(pax.xattrs);
  TRY(set_acl("system.posix_acl_access", pax.access_acl, inode));
  return set_acl("system.posix_acl_default", pax.default_acl, inode);
}

}  // namespace

Result<bool> TarReader::next(TarEntry& entry) {
  TRY_IN(fmt::format("content of entry \"{}\"", shown(entry.path)), finish_content());
  entry.path.clear();
  const std::uint64_t start = reader_.offset();
  Result<bool> read = read_entry(entry);
  if (read) return read;
  const std::string where = entry.path.empty() ? fmt::format("header at byte {}", start)
                                               : fmt::format("entry \"{}\" at byte {}", shown(entry.path), start);
  return tl::unexpected(std::move(read).error().within(where));
}

Result<bool> TarReader::read_entry(TarEntry& entry) {
  Pending pending;
  pending.pax = global_;
  for (int headers = 0; headers <= kMaxMetaHeaders; ++headers) {
    TarHeader header;
    if (TRY(read_header(header)) == HeaderKind::end) {
      if (pending.any) return fail(ErrorCode::corrupt, "the archive ends between an extended header and its entry");
      return false;
    }
    if (TRY(take_meta(header, pending))) continue;
    TRY(fill(header, pending, entry));
    return true;
  }
  return fail(ErrorCode::invalid, "more than {} extended headers before one entry", kMaxMetaHeaders);
}

Result<TarReader::HeaderKind> TarReader::read_header(TarHeader& header) {
  if (ended_) return HeaderKind::end;
  const std::size_t got = TRY(reader_.read_full(block_));
  if (got == 0) {
    ended_ = true;
    if (first_ || end_marker_ == EndMarker::optional) return HeaderKind::end;
    return fail(ErrorCode::corrupt, "the archive ends without its two zero blocks: something was cut off");
  }
  if (got < block_.size()) return fail(ErrorCode::corrupt, "the archive ends inside a header");
  first_ = false;
  if (is_zero_block(block_)) {
    ended_ = true;
    const std::size_t more = TRY(reader_.read_full(block_));
    if (more == 0 && end_marker_ == EndMarker::optional) return HeaderKind::end;
    if (more < block_.size()) return fail(ErrorCode::corrupt, "the archive ends in its end mark");
    if (!is_zero_block(block_)) return fail(ErrorCode::invalid, "a lone zero block inside the archive");
    return HeaderKind::end;
  }
  header = TRY(parse_tar_header(block_));
  return HeaderKind::entry;
}

// Deals with a header that is about the entries that follow it; false when it is an entry's own.
Result<bool> TarReader::take_meta(const TarHeader& header, Pending& pending) {
  switch (header.type) {
    case 'x':
    case 'X':  // Solaris
      TRY(parse_pax_records(TRY(read_meta(header, kMaxPaxBytes)), pending.pax));
      break;
    case 'g': {
      TRY(parse_pax_records(TRY(read_meta(header, kMaxPaxBytes)), global_));
      if (global_.names_one_entry()) {
        return fail(ErrorCode::invalid, "a global extended header that gives every entry one name or size");
      }
      pending.pax = global_;
      return true;  // an archive may end after it
    }
    case 'L': pending.long_name = TRY(read_meta(header, kMaxLongNameBytes)).c_str(); break;
    case 'K': pending.long_link = TRY(read_meta(header, kMaxLongNameBytes)).c_str(); break;
    case 'V': TRY(skip_stored(header.size)); return true;  // the archive's label: no file
    default: return false;
  }
  pending.any = true;
  return true;
}

Result<std::string> TarReader::read_meta(const TarHeader& header, std::uint64_t limit) {
  if (header.size > limit) {
    return fail(ErrorCode::invalid, "an extended header of {} bytes; at most {} are read", header.size, limit);
  }
  std::string data(header.size, '\0');
  const std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(data.data()), data.size());
  if (TRY(reader_.read_full(bytes)) < data.size()) {
    return fail(ErrorCode::corrupt, "the archive ends inside an extended header");
  }
  TRY(skip_stored(padding_after(data.size())));
  return data;
}

Result<void> TarReader::skip_stored(std::uint64_t count) {
  if (TRY(reader_.skip(count)) == count) return {};
  return fail(ErrorCode::corrupt, "the archive ends too early");
}

Result<void> TarReader::fill(const TarHeader& header, Pending& pending, TarEntry& entry) {
  TRY(fill_names(header, pending, entry));
  TarHeader own = header;
  own.size = pending.pax.size.value_or(header.size);
  if (is_regular(header.type) && entry.path.ends_with('/')) {
    // Before ustar had a type for directories, a name with a slash at its end was one.
    if (own.size > 0) return fail(ErrorCode::invalid, "a file with content whose name ends in a slash");
    own.type = '5';
  }
  entry.is_hard_link = own.type == '1';
  if (entry.is_hard_link) {
    entry.inode = Inode{};
  } else {
    TRY(set_attributes(own, pending.pax, entry.inode));
    if (entry.inode.type == FileType::symlink) entry.inode.target = std::move(entry.link);
  }
  return start_content(own, pending, entry);
}

Result<void> TarReader::fill_names(const TarHeader& header, Pending& pending, TarEntry& entry) {
  entry.path = !pending.long_name.empty() ? std::move(pending.long_name) : header.name;
  entry.link = !pending.long_link.empty() ? std::move(pending.long_link) : header.link;
  if (pending.pax.path) entry.path = std::move(*pending.pax.path);
  if (pending.pax.link) entry.link = std::move(*pending.pax.link);
  if (pending.pax.sparse && pending.pax.sparse->name) entry.path = std::move(*pending.pax.sparse->name);
  return {};
}

Result<void> TarReader::start_content(const TarHeader& header, Pending& pending, TarEntry& entry) {
  // Links, devices, directories and FIFOs have no data, whatever their size field says (as GNU tar and Go do).
  stored_ = is_regular(header.type) || header.type == 'D' ? header.size : 0;
  padding_ = padding_after(stored_);
  size_ = position_ = 0;
  segment_ = 0;
  segments_.clear();
  sparse_ = false;
  if (!is_regular(header.type)) return {};
  const auto& pax = pending.pax.sparse;
  const bool map_in_data = pax && pax->major.value_or(0) == 1 && pax->minor.value_or(0) == 0;
  if (pax && pax->major && !map_in_data && pax->major.value_or(0) != 0) {
    return fail(ErrorCode::unsupported, "sparse files of version {}.{} are not supported", *pax->major,
                pax->minor.value_or(0));
  }
  sparse_ = header.type == 'S' || pax;
  SparseMap map{stored_, {}};
  if (header.type == 'S') {
    map = TRY(read_old_gnu_map(block_, reader_));
    if (pending.pax.size && pax && pax->real_size) map.real_size = *pax->real_size;
  } else if (map_in_data) {
    LeadingMap leading = TRY(read_leading_map(reader_, stored_));
    map = {pax->real_size.value_or(stored_), std::move(leading.segments)};
    stored_ -= leading.bytes;
  } else if (pax) {
    map = {pax->real_size.value_or(stored_), std::move(pending.pax.sparse->segments)};
  } else if (stored_ > 0) {
    map.segments.push_back({0, stored_});
  }
  TRY(check_sparse_map(map, stored_));
  content_offset_ = reader_.offset();
  size_ = entry.inode.size = map.real_size;
  segments_ = std::move(map.segments);
  return {};
}

Result<ContentPiece> TarReader::read_content() {
  while (segment_ < segments_.size() && position_ == segments_[segment_].offset + segments_[segment_].length) {
    ++segment_;
  }
  const bool in_tail = segment_ == segments_.size();
  const std::uint64_t start = in_tail ? size_ : std::max(position_, segments_[segment_].offset);
  ContentPiece piece{.hole = start - position_};
  position_ = start;
  if (in_tail) return piece;
  const SparseSegment& segment = segments_[segment_];
  if (segment.length == 0) return piece;  // GNU tar marks a hole at the end of a file with one
  piece.data = TRY(reader_.read(segment.offset + segment.length - position_));
  if (piece.data.empty()) {
    return fail(ErrorCode::corrupt, "the archive ends {} bytes before the end of this file", stored_);
  }
  position_ += piece.data.size();
  stored_ -= piece.data.size();
  return piece;
}

Result<void> TarReader::finish_content() {
  const std::uint64_t rest = stored_ + padding_;
  segments_.clear();
  stored_ = padding_ = size_ = position_ = 0;
  segment_ = 0;
  return skip_stored(rest);
}

}  // namespace dsec::composer
