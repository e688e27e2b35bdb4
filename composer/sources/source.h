// SPDX-License-Identifier: Apache-2.0
// Where layers come from: images, archives and directories, behind one interface.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "composer/content_sink.h"
#include "composer/sources/layer_builder.h"

namespace dsec::composer {

// The runtime part of an image's configuration (OCI image specification, config.md, "config").
struct ImageConfig {
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::pair<std::string, std::string>> env;  // in the image's order
  std::string workdir;
  std::string user;
  std::string stop_signal;
  std::map<std::string, std::string> labels;
  std::vector<std::string> exposed_ports;  // "80/tcp"
  std::vector<std::string> volumes;        // paths
};

// Called while a layer is read, about once a MiB, from the thread that reads; may be empty. `read_bytes` counts what
// was read of the layer's input, which for a compressed layer is its compressed size.
using Progress = std::function<void(std::uint64_t read_bytes)>;

// What is known about a layer before it is read. All may be unknown.
struct LayerIdentity {
  std::optional<Digest> diff_id;  // SHA-256 of its uncompressed tar: equal ids are equal layers
  std::optional<Digest> blob;     // SHA-256 of the blob that holds it
};

// One layer of a source. Lives no longer than its source.
class LayerStream {
 public:
  virtual ~LayerStream() = default;

  // For messages: "oci:alpine: layer 1 of 3 (sha256:0123456789ab)".
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual LayerIdentity identity() const { return {}; }
  // Bytes that apply() will read, as Progress counts them; 0 when unknown.
  [[nodiscard]] virtual std::uint64_t size_bytes() const { return 0; }

  // Applies the whole layer. Only success says that its bytes were what they should be: after any error the layer and
  // the sink's contents must be thrown away. `invalid` for a source that breaks a rule (names the entry), `corrupt`
  // when bytes are missing or a digest does not fit, `unsupported` for what we cannot read, `io` from the system. The
  // caller then finishes the sink and calls LayerBuilder::resolve().
  virtual Result<void> apply(LayerBuilder& builder, ContentSink& sink, const Progress& progress) = 0;
};

// An opened source. Not thread-safe; layers of one source may be applied one after the other, each once.
class Source {
 public:
  virtual ~Source() = default;

  [[nodiscard]] virtual std::size_t layer_count() const = 0;
  // Layer `index`, bottom first.
  virtual Result<std::unique_ptr<LayerStream>> layer(std::size_t index) = 0;
  // Null for sources that have none: tars and directories.
  [[nodiscard]] virtual const ImageConfig* config() const { return nullptr; }
};

// Opens "SCHEME:REST"; a relative path in it is relative to `base_dir`.
//   oci:DIR[:REF]               an OCI image layout
//   docker-archive:FILE[:REF]   what "docker save" writes
//   tar:FILE                    one tar archive: plain, gzip, zstd, xz or bzip2
//   dir:PATH                    a live directory
// `invalid` for an unknown scheme (the message lists the known ones) or reference, `not_found` when the file or
// directory does not exist, `unsupported` and `corrupt` as for LayerStream::apply().
Result<std::unique_ptr<Source>> open_source(std::string_view spec, const std::filesystem::path& base_dir);

}  // namespace dsec::composer
