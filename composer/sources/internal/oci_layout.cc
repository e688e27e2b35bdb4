// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/oci_layout.h"

#include <sys/utsname.h>

#include <algorithm>

#include "composer/sources/internal/entry_path.h"

namespace dsec::composer {

namespace {

constexpr std::string_view kIndexTypes[] = {"application/vnd.oci.image.index.v1+json",
                                            "application/vnd.docker.distribution.manifest.list.v2+json"};
constexpr std::string_view kManifestTypes[] = {"application/vnd.oci.image.manifest.v1+json",
                                               "application/vnd.docker.distribution.manifest.v2+json"};
constexpr std::string_view kConfigTypes[] = {"application/vnd.oci.image.config.v1+json",
                                             "application/vnd.docker.container.image.v1+json"};

struct LayerType {
  std::string_view name;
  Compression compression;
};
constexpr LayerType kLayerTypes[] = {
    {"application/vnd.oci.image.layer.v1.tar", Compression::none},
    {"application/vnd.oci.image.layer.v1.tar+gzip", Compression::gzip},
    {"application/vnd.oci.image.layer.v1.tar+zstd", Compression::zstd},
    {"application/vnd.oci.image.layer.nondistributable.v1.tar", Compression::none},
    {"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", Compression::gzip},
    {"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", Compression::zstd},
    {"application/vnd.docker.image.rootfs.diff.tar", Compression::none},
    {"application/vnd.docker.image.rootfs.diff.tar.gzip", Compression::gzip},
    {"application/vnd.docker.image.rootfs.diff.tar.zstd", Compression::zstd},
    {"application/vnd.docker.image.rootfs.foreign.diff.tar", Compression::none},
    {"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", Compression::gzip},
};

template <typename List>
bool is_one_of(const std::string& type, const List& types) {
  return std::find(std::begin(types), std::end(types), type) != std::end(types);
}

Result<std::string> optional_text(const Json& object, const char* key) {
  return or_default<std::string>(json_text(object, key), {});
}

Result<Descriptor> parse_descriptor(const Json& json) {
  if (!json.is_object()) return fail(ErrorCode::invalid, "a descriptor that is no object");
  Descriptor descriptor;
  descriptor.media_type = TRY(optional_text(json, "mediaType"));
  descriptor.digest = TRY(parse_image_digest(TRY(json_text(json, "digest"))));
  descriptor.size = TRY(json_uint(json, "size"));
  const Json annotations = TRY(or_default<Json>(json_object(json, "annotations"), Json::object()));
  descriptor.ref = TRY(optional_text(annotations, "org.opencontainers.image.ref.name"));
  descriptor.ref_full = TRY(optional_text(annotations, "io.containerd.image.name"));
  const Json platform = TRY(or_default<Json>(json_object(json, "platform"), Json::object()));
  descriptor.os = TRY(optional_text(platform, "os"));
  descriptor.architecture = TRY(optional_text(platform, "architecture"));
  return descriptor;
}

Result<std::vector<Descriptor>> parse_index(const Json& index) {
  const Json manifests = TRY(json_array(index, "manifests"));
  if (manifests.size() > kMaxIndexEntries) {
    return fail(ErrorCode::invalid, "an index of {} entries; at most {} are taken", manifests.size(), kMaxIndexEntries);
  }
  std::vector<Descriptor> descriptors;
  for (const Json& manifest : manifests) descriptors.push_back(TRY(parse_descriptor(manifest)));
  return descriptors;
}

std::string list_refs(const std::vector<Descriptor>& descriptors) {
  constexpr std::size_t kMostShown = 20;
  std::string list;
  std::size_t count = 0;
  for (const Descriptor& descriptor : descriptors) {
    if (descriptor.ref.empty() || ++count > kMostShown) continue;
    list.append(list.empty() ? "" : ", ").append(shown(descriptor.ref));
  }
  if (count > kMostShown) list += fmt::format(" and {} more", count - kMostShown);
  return list.empty() ? "none has a name" : list;
}

// What `ref` means in the top index. Several when it stands for several platforms.
Result<std::vector<Descriptor>> named(const std::vector<Descriptor>& all, const std::string& ref) {
  const auto matching = [&all](const std::string& name) {
    std::vector<Descriptor> found;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [&name](const Descriptor& d) { return d.ref == name || d.ref_full == name; });
    return found;
  };
  if (!ref.empty()) {
    std::vector<Descriptor> found = matching(ref);
    if (!found.empty()) return found;
    return fail(ErrorCode::invalid, "no image is named \"{}\"; the names are: {}", shown(ref), list_refs(all));
  }
  const bool one_name =
      std::all_of(all.begin(), all.end(), [&all](const Descriptor& d) { return d.ref == all[0].ref; });
  if (one_name) return all;
  std::vector<Descriptor> latest = matching("latest");
  if (!latest.empty()) return latest;
  return fail(ErrorCode::invalid, "it holds several images; add \":NAME\" with one of: {}", list_refs(all));
}

// The one for this machine.
Result<Descriptor> for_platform(const std::vector<Descriptor>& candidates) {
  if (candidates.empty()) return fail(ErrorCode::invalid, "an index without images");
  if (candidates.size() == 1) return candidates[0];
  const std::string architecture = machine_architecture();
  const auto fits = [&](const Descriptor& d) { return d.os == "linux" && d.architecture == architecture; };
  const auto found = std::find_if(candidates.begin(), candidates.end(), fits);
  if (found != candidates.end()) return *found;
  std::string platforms;
  for (const Descriptor& d : candidates) {
    if (platforms.size() > 400) break;
    platforms += fmt::format("{}{}/{}", platforms.empty() ? "" : ", ", shown(d.os), shown(d.architecture));
  }
  return fail(ErrorCode::invalid, "it has no image for linux/{}, only for: {}", architecture, platforms);
}

Result<Compression> compression_of(const std::string& media_type) {
  for (const LayerType& type : kLayerTypes) {
    if (type.name == media_type) return type.compression;
  }
  const bool encrypted = media_type.find("+encrypted") != std::string::npos;
  return fail(ErrorCode::unsupported, "layers of type \"{}\" are not supported{}", shown(media_type),
              encrypted ? "; decrypt the image first" : "");
}

Result<std::vector<OciLayer>> parse_layers(const Json& manifest, const ImageDocument& document) {
  const Json layers = TRY(json_array(manifest, "layers"));
  if (layers.size() > kMaxLayers) {
    return fail(ErrorCode::invalid, "{} layers; at most {} are taken", layers.size(), kMaxLayers);
  }
  if (layers.size() != document.diff_ids.size()) {
    return fail(ErrorCode::invalid, "the manifest has {} layers, the configuration {}", layers.size(),
                document.diff_ids.size());
  }
  std::vector<OciLayer> all;
  for (const Json& json : layers) {
    OciLayer layer;
    layer.blob = TRY(parse_descriptor(json));
    layer.compression = TRY(compression_of(layer.blob.media_type));
    layer.diff_id = document.diff_ids[all.size()];
    all.push_back(std::move(layer));
  }
  return all;
}

// A member that is missing makes the document wrong; nothing is "not found".
template <typename T>
Result<T> as_invalid(Result<T> result) {
  if (!result && result.error().code == ErrorCode::not_found) result.error().code = ErrorCode::invalid;
  return result;
}

}  // namespace

std::string machine_architecture() {
  struct utsname names {};
  ::uname(&names);
  const std::string_view machine = names.machine;
  constexpr std::pair<std::string_view, const char*> kGoNames[] = {
      {"x86_64", "amd64"}, {"aarch64", "arm64"}, {"i686", "386"}, {"armv7l", "arm"}, {"loongarch64", "loong64"}};
  for (const auto& [kernel, go] : kGoNames) {
    if (machine == kernel) return go;
  }
  return std::string(machine);
}

Result<OciLayout> OciLayout::open(const std::filesystem::path& dir) {
  const Result<OpenFile> marker = open_regular(dir / "oci-layout");
  if (!marker && marker.error().code == ErrorCode::not_found) {
    return fail(ErrorCode::invalid, "it is no OCI image layout: there is no file \"oci-layout\" in it");
  }
  if (!marker) return tl::unexpected(marker.error());
  const Json json = TRY(parse_json(TRY(read_regular(*marker, kMaxDocumentBytes, "oci-layout")), "oci-layout"));
  const std::string version = TRY(as_invalid(json_text(json, "imageLayoutVersion")));
  if (!version.starts_with("1.")) {
    return fail(ErrorCode::unsupported, "image layout version \"{}\" is not supported, only 1.x", shown(version));
  }
  return OciLayout(dir);
}

Result<OpenFile> OciLayout::open_blob(const Descriptor& blob) const {
  const std::filesystem::path path = dir_ / "blobs" / "sha256" / blob.digest.hex();
  Result<OpenFile> file = open_regular(path);
  if (!file && file.error().code == ErrorCode::not_found) {
    return fail(ErrorCode::corrupt, "blob sha256:{} is missing; fetch the image again", blob.digest.hex());
  }
  if (!file) return file;
  if (file->size != blob.size) {
    return fail(ErrorCode::corrupt, "blob sha256:{} has {} bytes instead of {}; fetch the image again",
                blob.digest.hex(), file->size, blob.size);
  }
  return file;
}

Result<std::string> OciLayout::read_blob(const Descriptor& blob) const {
  const OpenFile file = TRY(open_blob(blob));
  std::string text = TRY(read_regular(file, kMaxDocumentBytes, "document sha256:" + blob.digest.hex()));
  if (sha256(as_bytes(text)) == blob.digest) return text;
  return fail(ErrorCode::corrupt, "document sha256:{} has other bytes than its digest says; fetch the image again",
              blob.digest.hex());
}

// Follows indexes down to an image manifest.
Result<Json> OciLayout::manifest(Descriptor descriptor) const {
  for (int depth = 0; depth < kMaxIndexDepth; ++depth) {
    const std::string what = "document sha256:" + descriptor.digest.brief();
    const Json json = TRY(parse_json(TRY(read_blob(descriptor)), what));
    if (TRY_IN(what, or_default<std::uint64_t>(json_uint(json, "schemaVersion"), 2)) != 2) {
      return fail(ErrorCode::unsupported, "{} has a schemaVersion other than 2; convert the image", what);
    }
    const std::string inner = TRY_IN(what, optional_text(json, "mediaType"));
    const std::string& type = descriptor.media_type.empty() ? inner : descriptor.media_type;
    if (!inner.empty() && inner != type) {
      return fail(ErrorCode::invalid, "{} says it is \"{}\", its descriptor \"{}\"", what, shown(inner), shown(type));
    }
    const bool untyped = type.empty();
    if (is_one_of(type, kManifestTypes) || (untyped && json.contains("layers"))) return json;
    if (!is_one_of(type, kIndexTypes) && !(untyped && json.contains("manifests"))) {
      return fail(ErrorCode::unsupported, "documents of type \"{}\" are not supported", shown(type));
    }
    descriptor = TRY_IN(what, for_platform(TRY(parse_index(json))));
  }
  return fail(ErrorCode::invalid, "indexes are nested deeper than {}", kMaxIndexDepth);
}

Result<OciImage> OciLayout::image(const std::string& ref) const {
  const OpenFile index = TRY(as_invalid(open_regular(dir_ / "index.json")));
  const Json json = TRY(parse_json(TRY(read_regular(index, kMaxDocumentBytes, "index.json")), "index.json"));
  const auto descriptors = TRY_IN("index.json", as_invalid(parse_index(json)));
  if (descriptors.empty()) return fail(ErrorCode::invalid, "it holds no image");
  const Descriptor chosen = TRY(for_platform(TRY(named(descriptors, ref))));
  const Json top = TRY(as_invalid(manifest(chosen)));
  const Descriptor config = TRY_IN("config", as_invalid(parse_descriptor(TRY(as_invalid(json_object(top, "config"))))));
  if (!is_one_of(config.media_type, kConfigTypes)) {
    return fail(ErrorCode::unsupported, "it is no container image but holds a \"{}\"", shown(config.media_type));
  }
  OciImage image;
  image.document = TRY(parse_image_document(TRY(read_blob(config)), "configuration sha256:" + config.digest.brief()));
  image.layers = TRY_IN("layers", as_invalid(parse_layers(top, image.document)));
  return image;
}

}  // namespace dsec::composer
