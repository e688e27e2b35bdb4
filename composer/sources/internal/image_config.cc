// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/image_config.h"

#include <algorithm>

#include "composer/sources/internal/entry_path.h"

namespace dsec::composer {

namespace {

Result<std::string> clean(std::string text, const char* key) {
  if (text.find('\0') == std::string::npos) return text;
  return fail(ErrorCode::invalid, "\"{}\" holds a NUL", key);
}

Result<std::string> text_of(const Json& object, const char* key) {
  return clean(TRY(or_default<std::string>(json_text(object, key), {})), key);
}

Result<std::vector<std::string>> texts_of(const Json& object, const char* key) {
  auto texts = TRY(or_default<std::vector<std::string>>(json_texts(object, key), {}));
  for (std::string& text : texts) text = TRY(clean(std::move(text), key));
  return texts;
}

Result<Json> object_of(const Json& object, const char* key) {
  return or_default<Json>(json_object(object, key), Json::object());
}

// {"80/tcp": {}} and the like.
Result<std::vector<std::string>> keys_of(const Json& object, const char* key) {
  std::vector<std::string> keys;
  const Json all = TRY(object_of(object, key));
  for (const auto& [name, value] : all.items()) keys.push_back(TRY(clean(name, key)));
  return keys;
}

Result<std::vector<std::pair<std::string, std::string>>> env_of(const Json& object) {
  std::vector<std::pair<std::string, std::string>> env;
  for (const std::string& line : TRY(texts_of(object, "Env"))) {
    const std::size_t equals = line.find('=');
    if (equals == 0 || line.empty()) return fail(ErrorCode::invalid, "\"Env\": \"{}\" has no name", shown(line));
    // "NAME" alone sets nothing in docker, and neither here.
    if (equals != std::string::npos) env.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return env;
}

Result<std::map<std::string, std::string>> labels_of(const Json& object) {
  std::map<std::string, std::string> labels;
  const Json all = TRY(object_of(object, "Labels"));
  for (const auto& [name, value] : all.items()) labels[name] = TRY(text_of(all, name.c_str()));
  return labels;
}

Result<ImageConfig> config_of(const Json& object) {
  ImageConfig config;
  config.entrypoint = TRY(texts_of(object, "Entrypoint"));
  config.cmd = TRY(texts_of(object, "Cmd"));
  config.env = TRY(env_of(object));
  config.workdir = TRY(text_of(object, "WorkingDir"));
  config.user = TRY(text_of(object, "User"));
  config.stop_signal = TRY(text_of(object, "StopSignal"));
  config.labels = TRY(labels_of(object));
  config.exposed_ports = TRY(keys_of(object, "ExposedPorts"));
  config.volumes = TRY(keys_of(object, "Volumes"));
  return config;
}

Result<ImageDocument> document_of(const Json& json) {
  ImageDocument document;
  document.os = TRY(text_of(json, "os"));
  document.architecture = TRY(text_of(json, "architecture"));
  document.config = TRY_IN("config", config_of(TRY(object_of(json, "config"))));
  const Json rootfs = TRY(json_object(json, "rootfs"));
  const auto diff_ids = TRY_IN("rootfs", texts_of(rootfs, "diff_ids"));
  if (diff_ids.size() > kMaxLayers) {
    return fail(ErrorCode::invalid, "{} layers; at most {} are taken", diff_ids.size(), kMaxLayers);
  }
  for (const std::string& id : diff_ids) document.diff_ids.push_back(TRY_IN("rootfs.diff_ids", parse_image_digest(id)));
  return document;
}

}  // namespace

Result<ImageDocument> parse_image_document(std::string_view text, std::string_view what) {
  const Json json = TRY(parse_json(text, what));
  Result<ImageDocument> document = document_of(json);
  if (document) return document;
  Error error = std::move(document).error();
  if (error.code == ErrorCode::not_found) error.code = ErrorCode::invalid;  // the document is there, a member is not
  return tl::unexpected(std::move(error).within(what));
}

Result<Digest> parse_image_digest(std::string_view text) {
  constexpr std::string_view kSha256 = "sha256:";
  if (text.starts_with(kSha256)) {
    const Result<Digest> digest = Digest::parse(text.substr(kSha256.size()));
    if (digest) return digest;
  } else if (text.starts_with("sha512:") || text.starts_with("sha384:")) {
    return fail(ErrorCode::unsupported, "digest \"{}\": only sha256 is supported", shown(text.substr(0, 80)));
  }
  return fail(ErrorCode::invalid, "\"{}\" is no digest (sha256: and 64 lower-case hex digits)",
              shown(text.substr(0, 80)));
}

}  // namespace dsec::composer
