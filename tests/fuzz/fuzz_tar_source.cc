// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as a layer of an image. The first byte chooses the compression and whether there is a layer
// below. Blocks that look like headers get a right checksum first, or no mutation would pass it. What comes out must be
// a tree that the layer codec either writes or refuses, and that can be stacked.
#include <cstdint>
#include <cstring>
#include <memory>

#include "composer/sources/internal/archive_layer.h"
#include "format/erofs.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::composer;

namespace {

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(ByteView bytes) : bytes_(bytes) {}
  Result<std::size_t> read(std::span<std::uint8_t> out) override {
    const std::size_t count = std::min(out.size(), bytes_.size());
    if (count > 0) std::memcpy(out.data(), bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return count;
  }

 private:
  ByteView bytes_;
};

// Forgets all content.
class DiscardingSink : public ContentSink {
 public:
  Result<void> begin() override { return {}; }
  Result<void> data(ByteView bytes) override {
    fuzz::require(!bytes.empty(), "data has bytes");
    return {};
  }
  Result<void> hole(std::uint64_t length) override {
    fuzz::require(length > 0, "holes have bytes");
    return {};
  }
  Result<Ticket> end() override { return count_++; }
  Result<std::vector<Digest>> finish() override { return std::vector<Digest>(count_, sha256(as_bytes("content"))); }

 private:
  Ticket count_ = 0;
};

// The header's own sum of bytes, its field counted as blanks.
void repair_checksum(std::uint8_t* block) {
  std::memset(block + 148, ' ', 8);
  unsigned sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) sum += block[i];
  std::snprintf(reinterpret_cast<char*>(block) + 148, 7, "%06o", sum);
}

Bytes repaired(ByteView input) {
  Bytes bytes(input.begin(), input.end());
  for (std::size_t at = 0; at + kTarBlock <= bytes.size(); at += kTarBlock) {
    if (std::memcmp(bytes.data() + at + 257, "ustar", 5) == 0) repair_checksum(bytes.data() + at);
  }
  return bytes;
}

MergedTree tree_below() {
  format::LayerTree layer;
  const auto directory = layer.add(0, "d", {.type = format::FileType::directory, .mode = 0755});
  const auto file = layer.add(*directory, "f", {.type = format::FileType::regular});
  const bool linked = layer.link(0, "f", *file).has_value();
  const auto link = layer.add(0, "l", {.type = format::FileType::symlink, .target = "/d"});
  MergedTree tree;
  fuzz::require(linked && link && tree.apply(layer), "the tree below can be made");
  return tree;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MergedTree below = tree_below();
  if (size == 0) return 0;
  constexpr Compression kCompressions[] = {Compression::none, Compression::none, Compression::gzip, Compression::zstd};
  LayerArchive archive;
  archive.compression = kCompressions[data[0] & 3];
  const Bytes input = repaired(ByteView(data + 1, size - 1));
  archive.bytes = std::make_unique<MemoryStream>(input);
  archive.names = (data[0] & 4) != 0 ? Names::plain : Names::oci;
  archive.end_marker = TarReader::EndMarker::optional;
  format::LayerTree layer;
  auto builder = LayerBuilder::create(layer, (data[0] & 8) != 0 ? &below : nullptr,
                                      {.target_dir = (data[0] & 16) != 0 ? "/l/target" : ""});
  fuzz::require(builder.has_value(), "a builder can be made");
  DiscardingSink sink;
  if (!apply_archive(std::move(archive), *builder, sink, {})) return 0;
  fuzz::require(builder->resolve(*sink.finish()).has_value(), "contents have digests");
  const auto image = format::write_layer(layer);
  fuzz::require(image || image.error().code == ErrorCode::invalid, "a tree is written or invalid");
  MergedTree merged = below;
  fuzz::require(merged.apply(layer).has_value(), "a layer can be stacked");
  return 0;
}
