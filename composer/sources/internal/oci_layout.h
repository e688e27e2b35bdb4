// SPDX-License-Identifier: Apache-2.0
// OCI image layouts: finding one image's manifest and configuration, every document verified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/json.h"
#include "base/result.h"
#include "composer/sources/internal/byte_stream.h"
#include "composer/sources/internal/decompress.h"
#include "composer/sources/internal/image_config.h"

namespace dsec::composer {

// OCI image specification, descriptor.md.
struct Descriptor {
  std::string media_type;  // may be empty where the specification lets it
  Digest digest;
  std::uint64_t size = 0;
  std::string ref;       // org.opencontainers.image.ref.name
  std::string ref_full;  // io.containerd.image.name, which "docker save" writes
  std::string os;        // platform; empty when there is none
  std::string architecture;
};

struct OciLayer {
  Descriptor blob;
  Digest diff_id;
  Compression compression = Compression::none;
};

struct OciImage {
  ImageDocument document;
  std::vector<OciLayer> layers;  // bottom first
};

// Nested indexes deeper than this, and indexes with more entries, are refused.
inline constexpr int kMaxIndexDepth = 4;
inline constexpr std::size_t kMaxIndexEntries = 4096;

// A directory with "oci-layout", "index.json" and "blobs/" (image-layout.md).
class OciLayout {
 public:
  // `invalid` when `dir` is no layout or of a version we do not know.
  static Result<OciLayout> open(const std::filesystem::path& dir);

  // The image named `ref`, for this machine's platform where there are several. Without a ref: the only image, else
  // the one named "latest"; else `invalid`, listing the refs. `corrupt` when a document is not what its digest says.
  Result<OciImage> image(const std::string& ref) const;

  // A blob as a file of the size that its descriptor says; its digest is for the reader to verify.
  Result<OpenFile> open_blob(const Descriptor& blob) const;

 private:
  explicit OciLayout(std::filesystem::path dir) : dir_(std::move(dir)) {}
  Result<std::string> read_blob(const Descriptor& blob) const;
  Result<Json> manifest(Descriptor descriptor) const;

  std::filesystem::path dir_;
};

// "amd64" and the like: the name that images have for the machine we run on (GOARCH).
std::string machine_architecture();

}  // namespace dsec::composer
