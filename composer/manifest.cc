// SPDX-License-Identifier: Apache-2.0
#include "composer/manifest.h"

#include <algorithm>

#include "base/fd.h"
#include "base/text.h"
#include "base/toml.h"

namespace dsec::composer {

namespace {

constexpr std::int64_t kManifestVersion = 1;
constexpr std::uint64_t kMaxManifestBytes = 4 << 20;

Result<std::string> required(TomlTable& table, std::string_view key, std::string_view example) {
  const auto value = TRY(table.text(key));
  if (!value || value->empty()) {
    return fail(ErrorCode::invalid, "{}: \"{}\" is missing, as in {} = \"{}\"", table.where(key), key, key, example);
  }
  return *value;
}

Result<LayerEntry> read_layer(TomlTable table) {
  LayerEntry entry;
  entry.where = table.where();
  const std::string name = TRY(required(table, "name", "base/debian@12"));
  entry.ref = TRY_IN(table.where("name"), format::parse_ref(format::RefKind::layer, name));
  entry.from = TRY(table.text("from")).value_or("");
  entry.target = TRY(table.text("target")).value_or("");
  TRY(table.finish());  // before what follows: "form" is a typo, not a layer without a source
  if (!entry.target.empty() && entry.target.front() != '/') {
    return fail(ErrorCode::invalid, "{}: target \"{}\" must begin with /", table.where("target"),
                escaped(entry.target));
  }
  if (!entry.target.empty() && entry.from.empty()) {
    return fail(ErrorCode::invalid, "{}: a layer that is taken from the store as it is cannot have a target",
                table.where("target"));
  }
  return entry;
}

Result<ConfigOverrides> read_config(TomlTable table) {
  ConfigOverrides config;
  config.entrypoint = TRY(table.texts("entrypoint"));
  config.cmd = TRY(table.texts("cmd"));
  config.workdir = TRY(table.text("workdir"));
  config.user = TRY(table.text("user"));
  if (config.workdir && (config.workdir->empty() || config.workdir->front() != '/')) {
    return fail(ErrorCode::invalid, "{}: workdir \"{}\" must begin with /", table.where("workdir"),
                escaped(*config.workdir));
  }
  if (auto env = TRY(table.table("env"))) config.env = TRY(env->text_map());
  TRY(table.finish());
  return config;
}

}  // namespace

Result<ComposePlan> parse_manifest(std::string_view text, const std::filesystem::path& file) {
  TomlTable table = TRY(TomlTable::parse(text, file.native()));
  const auto version = TRY(table.integer("version"));
  if (version.value_or(0) != kManifestVersion) {
    return fail(ErrorCode::invalid, "{}: \"version = {}\" is needed", table.where("version"), kManifestVersion);
  }
  ComposePlan plan;
  plan.base_dir = file.has_parent_path() ? file.parent_path() : ".";
  const std::string name = TRY(required(table, "name", "swe/django"));
  const std::string tag = TRY(table.text("tag")).value_or("latest");
  plan.name = TRY_IN(table.where("name"), format::parse_ref(format::RefKind::env, name + ":" + tag));
  for (TomlTable& layer : TRY(table.tables("layer"))) plan.layers.push_back(TRY(read_layer(std::move(layer))));
  if (plan.layers.empty()) return fail(ErrorCode::invalid, "{}: a manifest has at least one [[layer]]", table.where());
  if (auto config = TRY(table.table("config"))) plan.config = TRY(read_config(std::move(*config)));
  TRY(table.finish());
  return plan;
}

Result<ComposePlan> load_manifest(const std::filesystem::path& path) {
  const Bytes bytes = TRY(read_file(path, kMaxManifestBytes));
  if (!is_utf8(as_text(bytes))) return fail(ErrorCode::invalid, "{} is no UTF-8 text", path.native());
  return parse_manifest(as_text(bytes), path);
}

}  // namespace dsec::composer
