// SPDX-License-Identifier: Apache-2.0
// docker-archive:FILE[:REF], what "docker save" and skopeo write (moby: image/spec/spec.md, "Combined Image JSON +
// Filesystem Changeset Format").
#include <algorithm>
#include <array>

#include "composer/sources/internal/archive_layer.h"
#include "composer/sources/internal/docker_index.h"
#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/image_config.h"
#include "composer/sources/internal/openers.h"

namespace dsec::composer {

namespace {

struct DockerImage {
  std::string config;
  std::vector<std::string> tags;
  std::vector<std::string> layers;
};

Result<std::vector<DockerImage>> parse_manifest(const std::string& text) {
  constexpr std::size_t kMaxImages = 4096;
  const Json json = TRY(parse_json(text, "manifest.json"));
  if (!json.is_array() || json.empty() || json.size() > kMaxImages) {
    return fail(ErrorCode::invalid, "manifest.json is no list of 1 to {} images", kMaxImages);
  }
  std::vector<DockerImage> images;
  for (const Json& item : json) {
    if (!item.is_object()) return fail(ErrorCode::invalid, "manifest.json: an image that is no object");
    DockerImage image;
    image.config = TRY_IN("manifest.json", json_text(item, "Config"));
    image.tags = TRY_IN("manifest.json", or_default<std::vector<std::string>>(json_texts(item, "RepoTags"), {}));
    image.layers = TRY_IN("manifest.json", or_default<std::vector<std::string>>(json_texts(item, "Layers"), {}));
    images.push_back(std::move(image));
  }
  return images;
}

// "name" stands for "name:latest" too, and "alpine" for "docker.io/library/alpine:latest".
bool is_named(const std::string& tag, const std::string& ref) {
  const auto matches = [&tag](const std::string& name) { return tag == name || tag.ends_with("/" + name); };
  return matches(ref) || matches(ref + ":latest");
}

Result<DockerImage> choose(const std::vector<DockerImage>& images, const std::string& ref) {
  if (ref.empty() && images.size() == 1) return images[0];
  std::string names;
  for (const DockerImage& image : images) {
    for (const std::string& tag : image.tags) {
      if (!ref.empty() && is_named(tag, ref)) return image;
      if (names.size() < 1000) names.append(names.empty() ? "" : ", ").append(shown(tag));
    }
  }
  if (names.empty()) names = "none has a name";
  if (ref.empty()) {
    return fail(ErrorCode::invalid, "it holds {} images; add \":NAME\" with one of: {}", images.size(), names);
  }
  return fail(ErrorCode::invalid, "no image is named \"{}\"; the names are: {}", shown(ref), names);
}

class DockerLayer : public LayerStream {
 public:
  DockerLayer(const DockerIndex& index, DockerIndex::Member member, Digest diff_id, std::string description)
      : index_(index), member_(member), diff_id_(diff_id), description_(std::move(description)) {}

  [[nodiscard]] std::string description() const override { return description_; }
  [[nodiscard]] LayerIdentity identity() const override { return {diff_id_, {}}; }
  [[nodiscard]] std::uint64_t size_bytes() const override { return member_.size; }

  Result<void> apply(LayerBuilder& builder, ContentSink& sink, const Progress& progress) override {
    std::array<std::uint8_t, kMagicBytes> magic{};
    const std::uint64_t start = std::min<std::uint64_t>(member_.size, magic.size());
    const std::size_t got = TRY_IN(description_, index_.stream({member_.offset, start})->read(magic));
    LayerArchive archive;
    archive.bytes = index_.stream(member_);
    archive.compression = detect_compression(ByteView(magic).first(got));
    archive.names = Names::oci;
    archive.end_marker = TarReader::EndMarker::optional;
    archive.diff_id = diff_id_;
    TRY_IN(description_, apply_archive(std::move(archive), builder, sink, progress));
    return {};
  }

 private:
  const DockerIndex& index_;
  DockerIndex::Member member_;
  Digest diff_id_;
  std::string description_;
};

class DockerSource : public Source {
 public:
  DockerSource(std::string spec, DockerIndex index, DockerImage image, ImageDocument document)
      : spec_(std::move(spec)), index_(std::move(index)), image_(std::move(image)), document_(std::move(document)) {}

  [[nodiscard]] std::size_t layer_count() const override { return image_.layers.size(); }
  [[nodiscard]] const ImageConfig* config() const override { return &document_.config; }

  Result<std::unique_ptr<LayerStream>> layer(std::size_t index) override {
    const Digest diff_id = document_.diff_ids.at(index);
    std::string description =
        fmt::format("{}: layer {} of {} (sha256:{})", spec_, index + 1, layer_count(), diff_id.brief());
    const DockerIndex::Member member = TRY_IN(description, index_.find(image_.layers.at(index)));
    return std::make_unique<DockerLayer>(index_, member, diff_id, std::move(description));
  }

 private:
  std::string spec_;
  DockerIndex index_;
  DockerImage image_;
  ImageDocument document_;
};

Result<std::unique_ptr<Source>> open_archive(const SourceSpec& spec) {
  const PathAndRef place = TRY(split_ref(spec.rest));
  DockerIndex index = TRY(DockerIndex::open(place.path));
  DockerImage image = TRY(choose(TRY(parse_manifest(TRY(index.read("manifest.json")))), place.ref));
  ImageDocument document =
      TRY(parse_image_document(TRY(index.read(image.config)), "configuration " + shown(image.config)));
  if (image.layers.size() != document.diff_ids.size()) {
    return fail(ErrorCode::invalid, "manifest.json has {} layers, the configuration {}", image.layers.size(),
                document.diff_ids.size());
  }
  return std::make_unique<DockerSource>(spec.spec, std::move(index), std::move(image), std::move(document));
}

}  // namespace

Result<std::unique_ptr<Source>> open_docker_archive(const SourceSpec& spec) {
  Result<std::unique_ptr<Source>> source = open_archive(spec);
  if (source) return source;
  Error error = std::move(source).error();
  // Only a missing file is "not found"; a manifest without a member is wrong.
  if (error.code == ErrorCode::not_found && split_ref(spec.rest)) error.code = ErrorCode::invalid;
  return tl::unexpected(std::move(error).within(spec.spec));
}

}  // namespace dsec::composer
