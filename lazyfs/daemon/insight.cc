// SPDX-License-Identifier: Apache-2.0
#include "daemon/insight.h"

#include <set>

#include "base/log.h"
#include "daemon/stats_document.h"

namespace dsec::daemon {

using store::Origin;

namespace {

// For the recipe of a large file; a daemon that is to end waits for its connections.
constexpr std::chrono::seconds kInfoPatience{10};

const char* type_name(format::FileType type) {
  switch (type) {
    case format::FileType::regular: return "file";
    case format::FileType::directory: return "directory";
    case format::FileType::symlink: return "symlink";
    case format::FileType::char_device: return "character device";
    case format::FileType::block_device: return "block device";
    case format::FileType::fifo: return "fifo";
    case format::FileType::socket: return "socket";
    case format::FileType::whiteout: return "whiteout";
  }
  return "file";
}

// "env" of a request; nothing when it names none.
Result<std::optional<Digest>> env_of(const Json& request) {
  const std::string text = TRY(or_default(json_text(request, "env"), std::string()));
  if (text.empty()) return std::optional<Digest>();
  return std::optional<Digest>(TRY(Digest::parse(text)));
}

}  // namespace

tree::Whereabouts whereabouts(const ChunkStack& stack) {
  return [&stack](const format::MapEntry& chunk) {
    if (stack.memory->has(chunk.digest)) return Origin::memory;
    const format::ChunkLocation& at = chunk.location;
    if (stack.node_cache && stack.node_cache->has(at.pack, at.offset, at.stored_bytes)) return Origin::cache;
    return Origin::store;
  };
}

Insight::Insight(Sight sight) : sight_(std::move(sight)), paths_(*sight_.attachments), traces_(sight_.tap, paths_) {}

std::map<std::string, ControlServer::Handler> Insight::handlers() {
  using Peer = ControlServer::Peer;
  return {{"stats",
           [this](const Json& request, Peer&) -> Result<Json> { return stats_document(sight_, TRY(env_of(request))); }},
          {"inflight", [this](const Json&, Peer&) { return in_flight(); }},
          {"evict", [this](const Json& request, Peer&) { return evict(request); }},
          {"info", [this](const Json& request, Peer&) { return info(request); }},
          {"trace", [this](const Json& request, Peer& peer) { return traces_.next(request, peer); }}};
}

Result<Json> Insight::in_flight() {
  Json requests = Json::array();
  for (const MountedNames* mount : sight_.attachments->mounts()) {
    for (const fuse::InFlight& one : mount->session->requests_in_flight()) {
      const PathFinder::Place place = paths_.find(one.node);
      requests.push_back({{"operation", fuse::to_string(one.operation)},
                          {"mount", mount->path.filename().native()},
                          {"node", one.node.value()},
                          {"path", place.path},
                          {"layer", place.layer ? Json(place.layer->hex()) : Json()},
                          {"env", place.env ? Json(place.env->hex()) : Json()},
                          {"offset", one.offset},
                          {"length", one.length},
                          {"age_ms", std::chrono::duration_cast<std::chrono::milliseconds>(one.age).count()},
                          {"waits_for", store::to_string(one.stage)},
                          {"overdue", one.is_overdue}});
    }
  }
  forget_paths();
  return Json{{"requests", std::move(requests)}};
}

// Indexes of layers are only for those who look for long.
void Insight::forget_paths() {
  if (!sight_.tap->is_on()) paths_.forget_all();
}

// `memory` is raised by what went from memory; null: that stays.
std::uint64_t Insight::evict_env(const std::vector<std::shared_ptr<const store::Layer>>& layers,
                                 std::uint64_t* memory) {
  store::NodeCache* const cache = sight_.chunks->node_cache.get();
  const std::uint64_t before = cache != nullptr ? cache->stats().used_bytes : 0;
  for (const auto& layer : layers) {
    const format::LocationMapView& map = layer->map();
    for (std::size_t i = 0; i < map.size(); ++i) {
      const format::MapEntry entry = map.entry(i);
      if (cache != nullptr) cache->drop(entry.location.pack, entry.location.offset, entry.location.stored_bytes);
      if (memory != nullptr) *memory += sight_.chunks->memory->drop(entry.digest);
    }
  }
  if (cache == nullptr) return 0;
  cache->evict(0);  // gives back the space of what was dropped
  const std::uint64_t after = cache->stats().used_bytes;
  return before - std::min(before, after);
}

Result<Json> Insight::evict(const Json& request) {
  const std::optional<Digest> env = TRY(env_of(request));
  const std::uint64_t bytes = TRY(or_default(json_uint(request, "bytes"), ~std::uint64_t{0}));
  const bool with_memory = TRY(or_default(json_bool(request, "memory"), false));
  std::uint64_t memory = 0;
  std::uint64_t disk = 0;
  const auto& cache = sight_.chunks->node_cache;
  if (cache) cache->settle();  // what was fetched before is to go, too
  if (env) {
    disk = evict_env(TRY(sight_.attachments->layers(*env)), with_memory ? &memory : nullptr);
  } else {
    if (with_memory) memory = sight_.chunks->memory->drop_all();
    if (cache) disk = cache->evict(bytes);
  }
  log(LogLevel::info, "evicted",
      {{"node_cache_bytes", std::to_string(disk)}, {"memory_bytes", std::to_string(memory)}});
  return Json{{"node_cache_used", cache != nullptr}, {"node_cache_bytes", disk}, {"memory_bytes", memory}};
}

Result<Json> Insight::info(const Json& request) {
  const tree::NodeId node(TRY(json_uint(request, "node")));
  const std::string name = TRY(json_text(request, "mount"));
  for (const MountedNames* mount : sight_.attachments->mounts()) {
    if (mount->path.filename() != name) continue;
    const auto deadline = std::chrono::steady_clock::now() + kInfoPatience;
    const tree::NodeFacts facts = TRY(mount->names->facts(node, deadline));
    const tree::Residence found = tree::residence(facts, whereabouts(*sight_.chunks));
    std::set<Digest> packs;
    for (const format::MapEntry& chunk : facts.chunks) packs.insert(chunk.location.pack);
    Json cached = Json::object();
    for (std::size_t i = 0; i < store::kOrigins; ++i) {
      const auto origin = static_cast<Origin>(i);
      cached[store::to_string(origin)] = {{"chunks", found.of(origin).chunks},
                                          {"stored_bytes", found.of(origin).stored_bytes}};
    }
    const std::string path = paths_.find(node).path;
    forget_paths();
    return Json{{"node", node.value()},
                {"mount", name},
                {"type", type_name(facts.type)},
                {"size", facts.size},
                {"env", facts.env ? Json(facts.env->hex()) : Json()},
                {"layer", facts.layer.hex()},
                {"path_in_layer", path},
                {"digest", facts.object ? Json(facts.object->hex()) : Json()},
                {"chunks", facts.chunks.size()},
                {"packs", packs.size()},
                {"cached", std::move(cached)}};
  }
  return fail(ErrorCode::invalid, "no mount is called \"{}\"", name);
}

}  // namespace dsec::daemon
