// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"
#include "base/text.h"
#include "cli/inspect.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "store/store.h"

namespace dsec::cli {

using format::RefKind;
using store::Store;

Result<int> env_ls_verb(const CommonArgs& args) {
  const Store store = TRY(Store::open(default_store(args.store)));
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{{"NAME", "DIGEST", "LAYERS"}};
  for (const store::RefEntry& entry : TRY(store.list_refs(RefKind::env))) {
    const auto env = store.read_env(entry.digest);  // a damaged one must not hide the others
    const std::string name = to_string(RefKind::env, entry.ref);
    rows.push_back({name, entry.digest.brief(), env ? std::to_string(env->layers.size()) : "damaged"});
    Json item = {{"name", name}, {"digest", entry.digest.hex()}};
    if (env)
      item["layers"] = env->layers.size();
    else
      item["error"] = env.error().message;
    list.push_back(item);
  }
  TRY(args.json ? print_json({{"envs", list}}) : print(format_table(rows)));
  return kExitOk;
}

namespace {

Result<Json> inspect_env(const Store& store, const std::string& name) {
  const Digest digest = TRY(store.resolve(RefKind::env, name));
  const format::Env env = TRY(store.read_env(digest));
  Json layers = Json::array();
  for (const Digest& layer : env.layers) {
    Json item = to_json(TRY(layer_facts(store, layer)));
    item["digest"] = layer.hex();
    layers.push_back(item);
  }
  Json document = to_json(TRY(layers_facts(store, env.layers)));
  document["name"] = name;
  document["digest"] = digest.hex();
  document["layers"] = layers;
  document["config"] = to_json(env.config);
  return document;
}

std::string env_text(const Json& env) {
  std::string text =
      fmt::format("name      {}\ndigest    {}\n", env["name"].get<std::string>(), env["digest"].get<std::string>());
  text += fmt::format("content   {} in {} chunks; {} stored, {} of metadata\n",
                      human_size(env["content_bytes"].get<std::uint64_t>()), env["chunks"].get<std::uint64_t>(),
                      human_size(env["stored_bytes"].get<std::uint64_t>()),
                      human_size(env["metadata_bytes"].get<std::uint64_t>()));
  text += fmt::format("config    {}\n", dump_json(env["config"]));
  for (const Json& layer : env["layers"]) {
    text += fmt::format("layer     {}  {} stored\n", layer["digest"].get<std::string>(),
                        human_size(layer["stored_bytes"].get<std::uint64_t>()));
  }
  return text;
}

}  // namespace

Result<int> env_inspect_verb(const NameArgs& args) {
  const Store store = TRY(Store::open(default_store(args.common.store)));
  Json list = Json::array();
  for (const std::string& name : args.names) list.push_back(TRY(inspect_env(store, name)));
  if (args.common.json) {
    TRY(print_json(list.size() == 1 ? list[0] : Json{{"envs", list}}));
    return kExitOk;
  }
  for (const Json& env : list) TRY(print(env_text(env)));
  return kExitOk;
}

Result<int> env_rm_verb(const NameArgs& args) {
  const Store store = TRY(Store::open(default_store(args.common.store)));
  for (const std::string& name : args.names) {
    const format::RefName ref = TRY(format::parse_ref(RefKind::env, name));
    TRY(store.remove_ref(RefKind::env, ref));
    if (!args.common.json)
      TRY(print(fmt::format("removed {}; its layers and packs stay in the store\n", to_string(RefKind::env, ref))));
  }
  if (args.common.json) TRY(print_json({{"removed", args.names}}));
  return kExitOk;
}

}  // namespace dsec::cli
