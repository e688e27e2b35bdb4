// SPDX-License-Identifier: Apache-2.0
// From a stream of tar bytes to the entries of a layer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "composer/sources/internal/byte_stream.h"
#include "composer/sources/internal/decompress.h"
#include "composer/sources/internal/tar_reader.h"
#include "composer/sources/source.h"

namespace dsec::composer {

// How names in the archive are meant: as they are, or by the OCI rules (".wh.NAME" removes NAME).
enum class Names { plain, oci };

// One archive and what is known about it beforehand.
struct LayerArchive {
  std::unique_ptr<ByteStream> bytes;
  Compression compression = Compression::none;
  Names names = Names::plain;
  TarReader::EndMarker end_marker = TarReader::EndMarker::required;
  std::optional<Digest> blob_digest;  // of `bytes`; verified
  std::optional<Digest> diff_id;      // of the uncompressed bytes; verified
};

// Reads the whole archive, applies its entries to `builder` and puts contents into `sink`. Digests are verified when
// all is read: what came before counts only if this returns success. A mismatch is `corrupt` and is reported in
// preference to the parse error that it caused.
Result<void> apply_archive(LayerArchive archive, LayerBuilder& builder, ContentSink& sink, const Progress& progress);

// Applies the entries of an opened archive, without digests.
Result<void> apply_entries(TarReader& reader, Names names, LayerBuilder& builder, ContentSink& sink);

}  // namespace dsec::composer
