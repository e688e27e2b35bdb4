// SPDX-License-Identifier: Apache-2.0
// tar:FILE, one archive as one layer. Names are plain names: whiteouts belong to images.
#include <array>

#include "composer/sources/internal/archive_layer.h"
#include "composer/sources/internal/openers.h"

namespace dsec::composer {

namespace {

class TarLayer : public LayerStream {
 public:
  TarLayer(std::string spec, OpenFile file) : spec_(std::move(spec)), file_(std::move(file)) {}

  [[nodiscard]] std::string description() const override { return spec_; }
  [[nodiscard]] std::uint64_t size_bytes() const override { return file_.size; }

  Result<void> apply(LayerBuilder& builder, ContentSink& sink, const Progress& progress) override {
    std::array<std::uint8_t, kMagicBytes> magic{};
    FileStream start(file_.fd, 0, std::min<std::uint64_t>(file_.size, magic.size()));
    const std::size_t got = TRY_IN(spec_, start.read(magic));
    LayerArchive archive;
    archive.bytes = std::make_unique<FileStream>(file_.fd, 0, file_.size);
    archive.compression = detect_compression(ByteView(magic).first(got));
    TRY_IN(spec_, apply_archive(std::move(archive), builder, sink, progress));
    return {};
  }

 private:
  std::string spec_;
  OpenFile file_;
};

class TarSource : public Source {
 public:
  TarSource(std::string spec, OpenFile file) : spec_(std::move(spec)), file_(std::move(file)) {}
  [[nodiscard]] std::size_t layer_count() const override { return 1; }
  Result<std::unique_ptr<LayerStream>> layer(std::size_t /*index*/) override {
    return std::make_unique<TarLayer>(spec_, file_);
  }

 private:
  std::string spec_;
  OpenFile file_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_tar(const SourceSpec& spec) {
  OpenFile file = TRY_IN(spec.spec, open_regular(spec.rest));
  return std::make_unique<TarSource>(spec.spec, std::move(file));
}

}  // namespace dsec::composer
