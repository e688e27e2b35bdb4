// SPDX-License-Identifier: Apache-2.0
// oci:DIR[:REF], an image in an OCI image layout.
#include "composer/sources/internal/archive_layer.h"
#include "composer/sources/internal/oci_layout.h"
#include "composer/sources/internal/openers.h"

namespace dsec::composer {

namespace {

class OciLayerStream : public LayerStream {
 public:
  OciLayerStream(const OciLayout& layout, OciLayer layer, std::string description)
      : layout_(layout), layer_(std::move(layer)), description_(std::move(description)) {}

  [[nodiscard]] std::string description() const override { return description_; }
  [[nodiscard]] LayerIdentity identity() const override { return {layer_.diff_id, layer_.blob.digest}; }
  [[nodiscard]] std::uint64_t size_bytes() const override { return layer_.blob.size; }

  Result<void> apply(LayerBuilder& builder, ContentSink& sink, const Progress& progress) override {
    const OpenFile file = TRY_IN(description_, layout_.open_blob(layer_.blob));
    LayerArchive archive;
    archive.bytes = std::make_unique<FileStream>(file.fd, 0, file.size);
    archive.compression = layer_.compression;
    archive.names = Names::oci;
    archive.end_marker = TarReader::EndMarker::optional;
    archive.blob_digest = layer_.blob.digest;
    // Of an uncompressed layer the two are one, and hashing once is enough.
    const bool same = layer_.compression == Compression::none && layer_.diff_id == layer_.blob.digest;
    if (!same) archive.diff_id = layer_.diff_id;
    TRY_IN(description_, apply_archive(std::move(archive), builder, sink, progress));
    return {};
  }

 private:
  const OciLayout& layout_;
  OciLayer layer_;
  std::string description_;
};

class OciSource : public Source {
 public:
  OciSource(std::string spec, OciLayout layout, OciImage image)
      : spec_(std::move(spec)), layout_(std::move(layout)), image_(std::move(image)) {}

  [[nodiscard]] std::size_t layer_count() const override { return image_.layers.size(); }
  [[nodiscard]] const ImageConfig* config() const override { return &image_.document.config; }

  Result<std::unique_ptr<LayerStream>> layer(std::size_t index) override {
    const OciLayer& layer = image_.layers.at(index);
    std::string description =
        fmt::format("{}: layer {} of {} (sha256:{})", spec_, index + 1, layer_count(), layer.blob.digest.brief());
    return std::make_unique<OciLayerStream>(layout_, layer, std::move(description));
  }

 private:
  std::string spec_;
  OciLayout layout_;
  OciImage image_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_oci_layout(const SourceSpec& spec) {
  const PathAndRef place = TRY_IN(spec.spec, split_ref(spec.rest));
  OciLayout layout = TRY_IN(spec.spec, OciLayout::open(place.path));
  OciImage image = TRY_IN(spec.spec, layout.image(place.ref));
  return std::make_unique<OciSource>(spec.spec, std::move(layout), std::move(image));
}

}  // namespace dsec::composer
