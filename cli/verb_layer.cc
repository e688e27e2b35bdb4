// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"
#include "base/text.h"
#include "cli/inspect.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "format/erofs.h"
#include "store/store.h"

namespace dsec::cli {

using format::RefKind;
using store::Store;

Result<int> layer_ls_verb(const CommonArgs& args) {
  const Store store = TRY(Store::open(default_store(args.store)));
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{{"NAME", "LAYERS", "STORED", "DIGESTS"}};
  for (const store::RefEntry& entry : TRY(store.list_refs(RefKind::layer))) {
    const std::string name = to_string(RefKind::layer, entry.ref);
    const auto stack = store.read_env(entry.digest);
    const auto facts = stack ? layers_facts(store, stack->layers) : Result<LayerFacts>(tl::unexpected(stack.error()));
    if (!facts) {
      rows.push_back({name, "damaged", "", ""});
      list.push_back({{"name", name}, {"error", facts.error().message}});
      continue;
    }
    std::string digests;
    Json layers = Json::array();
    for (const Digest& layer : stack->layers) {
      digests += (digests.empty() ? "" : " ") + layer.brief();
      layers.push_back(layer.hex());
    }
    rows.push_back({name, std::to_string(stack->layers.size()), human_size(facts->stored_bytes), digests});
    list.push_back({{"name", name}, {"layers", layers}, {"stored_bytes", facts->stored_bytes}});
  }
  TRY(args.json ? print_json({{"layers", list}}) : print(format_table(rows)));
  return kExitOk;
}

namespace {

// The layers that a name or a digest means: a stack, or one layer.
Result<std::vector<Digest>> layers_of(const Store& store, const std::string& name) {
  const Digest digest = TRY(store.resolve(RefKind::layer, name));
  if (store.has_layer(digest)) return std::vector<Digest>{digest};
  return TRY(store.read_env(digest)).layers;
}

Result<Json> inspect_layer(const Store& store, const Digest& layer) {
  const Bytes image = TRY(store.read_layer_image(layer));
  const auto view = TRY_IN(fmt::format("layer {}", layer.hex()), format::ErofsView::open(image));
  Json document = to_json(TRY(layer_facts(store, layer)));
  document["digest"] = layer.hex();
  document["inodes"] = view.inode_count();
  document["has_xattrs"] = view.has_visible_xattrs();
  return document;
}

}  // namespace

Result<int> layer_inspect_verb(const NameArgs& args) {
  const Store store = TRY(Store::open(default_store(args.common.store)));
  Json list = Json::array();
  for (const std::string& name : args.names) {
    for (const Digest& layer : TRY(layers_of(store, name))) list.push_back(TRY(inspect_layer(store, layer)));
  }
  if (args.common.json) {
    TRY(print_json({{"layers", list}}));
    return kExitOk;
  }
  for (const Json& layer : list) {
    TRY(print(
        fmt::format("layer     {}\ninodes    {}\nmetadata  {}\ncontent   {} in {} chunks, {} stored in {} packs\n",
                    layer["digest"].get<std::string>(), layer["inodes"].get<std::uint64_t>(),
                    human_size(layer["metadata_bytes"].get<std::uint64_t>()),
                    human_size(layer["content_bytes"].get<std::uint64_t>()), layer["chunks"].get<std::uint64_t>(),
                    human_size(layer["stored_bytes"].get<std::uint64_t>()), layer["packs"].get<std::uint64_t>())));
  }
  return kExitOk;
}

}  // namespace dsec::cli
