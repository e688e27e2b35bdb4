// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/archive_layer.h"

#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/whiteout_name.h"

namespace dsec::composer {

using format::FileType;

namespace {

Result<void> copy_content(TarReader& reader, const TarEntry& entry, InodeId file, LayerBuilder& builder,
                          ContentSink& sink) {
  TRY(sink.begin());
  for (;;) {
    const ContentPiece piece = TRY_IN(fmt::format("entry \"{}\"", shown(entry.path)), reader.read_content());
    if (piece.hole == 0 && piece.data.empty()) break;
    if (piece.hole > 0) TRY(sink.hole(piece.hole));
    if (!piece.data.empty()) TRY(sink.data(piece.data));
  }
  builder.set_content(file, entry.inode.size, TRY(sink.end()));
  return {};
}

// True when the name was one of the OCI specification's and is dealt with.
Result<bool> apply_whiteout(const TarEntry& entry, LayerBuilder& builder) {
  const ClassifiedName name = TRY_IN(fmt::format("entry \"{}\"", shown(entry.path)), classify_name(entry.path));
  if (name.kind == NameKind::plain) return false;
  if (name.kind == NameKind::ignored) return true;
  if (!entry.is_hard_link && entry.inode.type == FileType::directory) {
    return fail(ErrorCode::invalid, "entry \"{}\": a whiteout that is a directory", shown(entry.path));
  }
  TRY(name.kind == NameKind::opaque ? builder.make_opaque(name.path) : builder.remove_below(name.path));
  return true;
}

Result<void> check_digest(const char* what, const std::optional<Digest>& expected, HashingStream& stream) {
  if (!expected) return {};
  const Digest actual = stream.digest();
  if (actual == *expected) return {};
  return fail(ErrorCode::corrupt, "{} should be sha256:{} but its bytes give sha256:{}; fetch the image again", what,
              expected->hex(), actual.hex());
}

HashingStream::Hash hash_if(bool wanted) { return wanted ? HashingStream::Hash::yes : HashingStream::Hash::no; }

// Calls the user's progress function about once a MiB.
std::function<void(std::uint64_t)> metered(const Progress& progress) {
  if (!progress) return {};
  return [&progress, total = std::uint64_t{0}, said = std::uint64_t{0}](std::uint64_t bytes) mutable {
    total += bytes;
    if (total - said < kStreamBufferBytes) return;
    said = total;
    progress(total);
  };
}

}  // namespace

Result<void> apply_entries(TarReader& reader, Names names, LayerBuilder& builder, ContentSink& sink) {
  TarEntry entry;
  while (TRY(reader.next(entry))) {
    if (names == Names::oci && TRY(apply_whiteout(entry, builder))) continue;
    if (entry.is_hard_link) {
      TRY(builder.link(entry.path, entry.link));
      continue;
    }
    const bool has_content = entry.inode.type == FileType::regular && entry.inode.size > 0;
    const std::uint64_t size = entry.inode.size;
    const InodeId id = TRY(builder.add(entry.path, std::move(entry.inode)));
    entry.inode.size = size;
    if (has_content) TRY(copy_content(reader, entry, id, builder, sink));
  }
  return {};
}

Result<void> apply_archive(LayerArchive archive, LayerBuilder& builder, ContentSink& sink, const Progress& progress) {
  auto owned_blob = std::make_unique<HashingStream>(std::move(archive.bytes), hash_if(archive.blob_digest.has_value()),
                                                    metered(progress));
  HashingStream& blob = *owned_blob;
  HashingStream plain(decompress(std::move(owned_blob), archive.compression), hash_if(archive.diff_id.has_value()));
  TarReader reader(plain, archive.end_marker);
  Result<void> applied = apply_entries(reader, archive.names, builder, sink);
  if (applied) applied = drain(plain);
  // Only a blob that is what it should be can be blamed for what it holds.
  if (drain(blob)) TRY(check_digest("the blob", archive.blob_digest, blob));
  TRY(std::move(applied));
  if (progress) progress(blob.size());
  return check_digest("the uncompressed layer (diff_id)", archive.diff_id, plain);
}

}  // namespace dsec::composer
