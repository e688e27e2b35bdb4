// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/docker_index.h"

#include <fcntl.h>
#include <stdlib.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "composer/sources/internal/decompress.h"
#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/image_config.h"
#include "composer/sources/internal/tar_reader.h"

namespace dsec::composer {

namespace {

std::string joined(const std::vector<std::string_view>& names) {
  std::string path;
  for (const std::string_view name : names) path.append(path.empty() ? "" : "/").append(name);
  return path;
}

Result<std::string> normal_name(std::string_view name) {
  std::vector<std::string_view> names;
  TRY(split_entry_path(name, names));
  return joined(names);
}

// What a symlink at `name` points to, ".." taken inside the archive.
std::string symlink_goal(std::string_view name, std::string_view target) {
  const std::size_t slash = name.rfind('/');
  const std::string path = target.starts_with('/') || slash == std::string_view::npos
                               ? std::string(target)
                               : std::string(name.substr(0, slash + 1)).append(target);
  std::vector<std::string_view> names;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = std::string_view(path).substr(start, end - start);
    start = end + 1;
    if (part == ".." && !names.empty()) names.pop_back();
    if (part != ".." && part != "." && !part.empty()) names.push_back(part);
  }
  return joined(names);
}

Result<Fd> spool_file() {
  const char* dir = std::getenv("TMPDIR");
  return TRY_IN("set TMPDIR to a directory with room", unnamed_file(dir != nullptr && dir[0] != '\0' ? dir : "/tmp"));
}

Result<OpenFile> unpacked(const OpenFile& file, Compression compression) {
  const auto plain = decompress(std::make_unique<FileStream>(file.fd, 0, file.size), compression);
  Fd spool = TRY(spool_file());
  Bytes buffer(kStreamBufferBytes);
  std::uint64_t size = 0;
  for (;;) {
    const std::size_t got = TRY(plain->read(buffer));
    if (got == 0) break;
    TRY_IN("unpacking to a temporary file (in $TMPDIR)", write_all(spool, ByteView(buffer).first(got)));
    size += got;
  }
  return OpenFile{std::make_shared<const Fd>(std::move(spool)), size};
}

}  // namespace

Result<DockerIndex> DockerIndex::open(const std::filesystem::path& path) {
  DockerIndex index;
  index.file_ = TRY(open_regular(path));
  std::array<std::uint8_t, kMagicBytes> magic{};
  FileStream start(index.file_.fd, 0, std::min<std::uint64_t>(index.file_.size, magic.size()));
  const std::size_t got = TRY(start.read(magic));
  const Compression compression = detect_compression(ByteView(magic).first(got));
  if (compression != Compression::none) index.file_ = TRY(unpacked(index.file_, compression));
  TRY(index.scan());
  return index;
}

Result<void> DockerIndex::scan() {
  FileStream stream(file_.fd, 0, file_.size);
  TarReader reader(stream, TarReader::EndMarker::required);
  TarEntry entry;
  while (TRY(reader.next(entry))) {
    if (files_.size() + links_.size() >= kMaxMembers) {
      return fail(ErrorCode::invalid, "more than {} members in the archive", kMaxMembers);
    }
    std::string name = TRY_IN(fmt::format("member \"{}\"", shown(entry.path)), normal_name(entry.path));
    files_.erase(name);  // the last member of a name wins
    links_.erase(name);
    if (entry.is_hard_link) {
      links_[name] = TRY_IN(fmt::format("member \"{}\"", shown(entry.path)), normal_name(entry.link));
    } else if (entry.inode.type == format::FileType::symlink) {
      links_[name] = symlink_goal(name, entry.inode.target);
    } else if (entry.inode.type == format::FileType::regular) {
      if (reader.is_sparse()) return fail(ErrorCode::unsupported, "member \"{}\" is a sparse file", shown(name));
      files_[name] = {reader.content_offset(), entry.inode.size};
    }
  }
  return {};
}

Result<DockerIndex::Member> DockerIndex::find(std::string_view name) const {
  constexpr int kMostLinks = 40;
  std::string at = TRY(normal_name(name));
  for (int i = 0; i <= kMostLinks; ++i) {
    if (const auto file = files_.find(at); file != files_.end()) return file->second;
    const auto link = links_.find(at);
    if (link == links_.end()) {
      return fail(ErrorCode::invalid, "there is no file \"{}\" in the archive", shown(at));
    }
    at = link->second;
  }
  return fail(ErrorCode::invalid, "\"{}\" leads through more than {} links", shown(name), kMostLinks);
}

Result<std::string> DockerIndex::read(std::string_view name) const {
  const Member member = TRY(find(name));
  if (member.size > kMaxDocumentBytes) {
    return fail(ErrorCode::invalid, "\"{}\" has {} bytes; at most {} are read", shown(name), member.size,
                kMaxDocumentBytes);
  }
  std::string text(member.size, '\0');
  TRY(pread_exact(*file_.fd, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, member.offset));
  return text;
}

}  // namespace dsec::composer
