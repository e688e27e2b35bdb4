// SPDX-License-Identifier: Apache-2.0
#include "composer/check.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "format/erofs.h"
#include "format/location_map.h"
#include "format/recipe.h"
#include "store/decorators.h"
#include "store/sources.h"

namespace dsec::composer {

using format::ChunkLocation;
using format::LayerTree;
using format::PackEntry;
using format::RefKind;

namespace {

constexpr std::size_t kReadBytes = 4 << 20;

class Checker {
 public:
  Checker(const store::Store& store, const std::function<void(const std::string&)>& progress)
      : store_(store),
        progress_(progress),
        source_(store::verify(store::directory_source(store, io::make_sync_engine()))) {}

  Result<CheckReport> run() {
    for (const Digest& pack : TRY(store_.list_packs())) check_pack(pack);
    for (const Digest& layer : TRY(store_.list_layers())) check_layer(layer);
    for (const Digest& env : TRY(store_.list_envs())) check_env(env);
    TRY(check_refs(RefKind::env));
    TRY(check_refs(RefKind::layer));
    name_the_hurt();
    report_.unfinished = count_unfinished_files(store_.tmp_dir());
    return std::move(report_);
  }

 private:
  void say(const std::string& line) {
    if (progress_) progress_(line);
  }

  void problem(std::string what, std::string name, std::string message) {
    report_.problems.push_back({std::move(what), std::move(name), std::move(message), {}});
  }

  // --- packs ---

  void check_pack(const Digest& pack) {
    say(fmt::format("pack {}", pack.brief()));
    ++report_.packs;
    auto entries = store_.read_pack_index(pack);
    if (!entries) {
      problem("pack", pack.hex(), entries.error().message);
      return;
    }
    auto& known = packs_[pack];
    auto outcome = [&]() -> Result<void> {
      const Fd fd = TRY(open_file(store_.pack_path(pack), O_RDONLY));
      std::size_t damaged = 0;
      for (const PackEntry& entry : *entries) {
        if (TRY(chunk_is_good(fd, entry)))
          known.emplace(entry.digest, entry);
        else if (++damaged == 1)
          problem("pack", pack.hex(), fmt::format("chunk {} at {} is damaged", entry.digest.hex(), entry.offset));
      }
      report_.chunks += entries->size();
      if (damaged > 1) problem("pack", pack.hex(), fmt::format("{} chunks in all are damaged", damaged));
      const Digest digest = TRY(digest_of(fd));
      if (digest != pack && damaged == 0) problem("pack", pack.hex(), "the file does not have the digest in its name");
      return {};
    }();
    if (!outcome) problem("pack", pack.hex(), outcome.error().message);
  }

  static Result<bool> chunk_is_good(const Fd& fd, const PackEntry& entry) {
    Bytes stored(entry.stored_bytes);
    TRY(pread_exact(fd, stored, entry.offset));
    const auto plain = format::decode_chunk(entry.codec, stored, entry.plain_bytes);
    return plain && sha256(*plain) == entry.digest;
  }

  Result<Digest> digest_of(const Fd& fd) {
    Sha256 hash;
    Bytes buffer(kReadBytes);
    while (const std::size_t n = TRY(read_some(fd, buffer))) {
      hash.update(ByteView(buffer).first(n));
      report_.pack_bytes += n;
    }
    return hash.finish();
  }

  // --- layers ---

  void check_layer(const Digest& layer) {
    say(fmt::format("layer {}", layer.brief()));
    ++report_.layers;
    auto image = store_.read_layer_image(layer);
    if (!image) return layer_problem("layer", layer, image.error().message);
    const auto tree = format::read_layer(*image);
    if (!tree) return layer_problem("layer", layer, tree.error().message);
    const auto bytes = store_.read_layer_map(layer);
    if (!bytes) return layer_problem("map", layer, bytes.error().message);
    const auto map = format::LocationMapView::open(*bytes);
    if (!map) return layer_problem("map", layer, map.error().within(store_.layer_map_path(layer).native()).message);
    check_objects(layer, *tree, *map);
  }

  void layer_problem(const char* what, const Digest& layer, std::string message) {
    problem(what, layer.hex(), std::move(message));
  }

  void check_objects(const Digest& layer, const LayerTree& tree, const format::LocationMapView& map) {
    std::size_t missing = 0;
    std::string first;
    std::set<Digest> done;
    for (format::InodeId id = 0; id < tree.capacity(); ++id) {
      const Digest& object = tree.inode(id).object;
      if (object.is_zero() || !done.insert(object).second) continue;
      auto outcome = check_object(layer, object, map);
      if (outcome) continue;
      if (++missing == 1) first = outcome.error().message;
    }
    if (missing > 0)
      layer_problem("map", layer, fmt::format("{} of {} objects cannot be read: {}", missing, done.size(), first));
  }

  Result<void> check_object(const Digest& layer, const Digest& object, const format::LocationMapView& map) {
    const ChunkLocation location = TRY(check_place(layer, object, map));
    if (location.plain_bytes <= format::kRecipeMagic.size()) return {};
    const store::Chunk chunk = TRY(source_->fetch({object, location, layer}, store::Deadline::max()));
    if (!format::looks_like_recipe(*chunk.bytes)) return {};
    Result<void> outcome;
    for (const format::RecipePart& part : TRY(format::read_recipe(*chunk.bytes)).parts) {
      if (part.is_hole()) continue;
      const auto place = check_place(layer, part.chunk, map);  // all of them, for the packs that are to blame
      if (!place && outcome) outcome = tl::unexpected(place.error());
    }
    return outcome;
  }

  // What the map says must be what a good pack says.
  Result<ChunkLocation> check_place(const Digest& layer, const Digest& digest, const format::LocationMapView& map) {
    const ChunkLocation location = TRY(map.find(digest));
    auto outcome = compare_place(digest, location);
    if (!outcome) hurt_by_pack_[location.pack].insert(layer);
    TRY(std::move(outcome));
    return location;
  }

  Result<void> compare_place(const Digest& digest, const ChunkLocation& location) const {
    const auto pack = packs_.find(location.pack);
    if (pack == packs_.end()) {
      return fail(ErrorCode::corrupt, "chunk {} is in pack {}, which is missing or damaged", digest.hex(),
                  location.pack.hex());
    }
    const auto entry = pack->second.find(digest);
    if (entry == pack->second.end()) {
      return fail(ErrorCode::corrupt, "pack {} does not have a good chunk {}", location.pack.hex(), digest.hex());
    }
    const PackEntry& there = entry->second;
    const bool same = there.offset == location.offset && there.stored_bytes == location.stored_bytes &&
                      there.plain_bytes == location.plain_bytes && there.codec == location.codec;
    if (!same) return fail(ErrorCode::corrupt, "chunk {} is elsewhere in pack {}", digest.hex(), location.pack.hex());
    return {};
  }

  // --- environments and refs ---

  void check_env(const Digest& env) {
    ++report_.envs;
    const auto document = store_.read_env(env);
    if (!document) {
      bad_envs_.insert(env);
      problem("env", env.hex(), document.error().message);
      return;
    }
    layers_of_[env] = document->layers;
    for (const Digest& layer : document->layers) {
      if (store_.has_layer(layer)) continue;
      problem("env", env.hex(), fmt::format("its layer {} is missing", layer.hex()));
    }
  }

  Result<void> check_refs(RefKind kind) {
    for (const format::RefName& ref : TRY(store_.list_ref_names(kind))) {
      ++report_.refs;
      const std::string name = to_string(kind, ref);
      const auto digest = store_.read_ref(kind, ref);
      if (!digest) {
        problem("ref", name, digest.error().message);
        continue;
      }
      if (kind == RefKind::env)
        names_of_[*digest].push_back(name);
      else
        stacks_.insert(*digest);
      const bool there = layers_of_.count(*digest) > 0 || bad_envs_.count(*digest) > 0;
      if (!there) problem("ref", name, fmt::format("it names {}, which is not in the store", digest->hex()));
    }
    return {};
  }

  // What people call an environment; nothing for the document of a layer ref.
  [[nodiscard]] std::vector<std::string> called(const Digest& env) const {
    const auto named = names_of_.find(env);
    if (named != names_of_.end()) return named->second;
    return stacks_.count(env) > 0 ? std::vector<std::string>() : std::vector<std::string>{env.hex()};
  }

  // A pack hurts the layers whose objects were not found good in it, and these the environments that have them.
  void name_the_hurt() {
    std::map<Digest, std::vector<std::string>> by_layer;
    for (const auto& [env, layers] : layers_of_) {
      for (const Digest& layer : std::set<Digest>(layers.begin(), layers.end())) {
        const std::vector<std::string> names = called(env);
        by_layer[layer].insert(by_layer[layer].end(), names.begin(), names.end());
      }
    }
    for (CheckProblem& found : report_.problems) {
      const auto digest = Digest::parse(found.name);
      if (!digest) continue;
      if (found.what == "layer" || found.what == "map") found.hurts = by_layer[*digest];
      if (found.what == "env") found.hurts = called(*digest);
      if (found.what == "pack") {
        for (const Digest& layer : hurt_by_pack_[*digest]) {
          found.hurts.insert(found.hurts.end(), by_layer[layer].begin(), by_layer[layer].end());
        }
      }
      std::sort(found.hurts.begin(), found.hurts.end());
      found.hurts.erase(std::unique(found.hurts.begin(), found.hurts.end()), found.hurts.end());
    }
  }

  const store::Store& store_;
  const std::function<void(const std::string&)>& progress_;
  std::unique_ptr<store::ChunkSource> source_;
  std::unordered_map<Digest, std::unordered_map<Digest, PackEntry>> packs_;  // good chunks of readable packs
  std::map<Digest, std::set<Digest>> hurt_by_pack_;  // layers that need a chunk which is not good in this pack
  std::set<Digest> stacks_;                          // documents that layer refs name
  std::set<Digest> bad_envs_;
  std::map<Digest, std::vector<Digest>> layers_of_;
  std::map<Digest, std::vector<std::string>> names_of_;
  CheckReport report_;
};

}  // namespace

Result<CheckReport> check_store(const store::Store& store, const std::function<void(const std::string&)>& progress) {
  return Checker(store, progress).run();
}

}  // namespace dsec::composer
