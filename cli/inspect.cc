// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect.h"

#include <sys/stat.h>

#include <cerrno>
#include <set>
#include <unordered_set>

#include "format/location_map.h"

namespace dsec::cli {

Result<LayerFacts> layers_facts(const store::Store& store, const std::vector<Digest>& layers) {
  LayerFacts facts;
  std::unordered_set<Digest> seen;
  std::set<Digest> packs;
  for (const Digest& layer : layers) {
    struct stat st {};
    const std::filesystem::path image = store.layer_image_path(layer);
    if (::stat(image.c_str(), &st) != 0) return fail_sys(errno, image.native());
    facts.metadata_bytes += static_cast<std::uint64_t>(st.st_size);
    const Bytes bytes = TRY(store.read_layer_map(layer));
    const auto map = TRY_IN(fmt::format("layer {}", layer.hex()), format::LocationMapView::open(bytes));
    for (std::size_t i = 0; i < map.size(); ++i) {
      const format::MapEntry entry = map.entry(i);
      if (!seen.insert(entry.digest).second) continue;
      ++facts.chunks;
      facts.plain_bytes += entry.location.plain_bytes;
      facts.stored_bytes += entry.location.stored_bytes;
      packs.insert(entry.location.pack);
    }
  }
  facts.packs = packs.size();
  return facts;
}

Result<LayerFacts> layer_facts(const store::Store& store, const Digest& layer) { return layers_facts(store, {layer}); }

Json to_json(const LayerFacts& facts) {
  return {{"metadata_bytes", facts.metadata_bytes},
          {"chunks", facts.chunks},
          {"content_bytes", facts.plain_bytes},
          {"stored_bytes", facts.stored_bytes},
          {"packs", facts.packs}};
}

Json to_json(const format::RunConfig& config) {
  Json env = Json::object();
  for (const auto& [name, value] : config.env) env[name] = value;
  return {{"entrypoint", config.entrypoint},
          {"cmd", config.cmd},
          {"env", env},
          {"workdir", config.workdir},
          {"user", config.user}};
}

}  // namespace dsec::cli
