// SPDX-License-Identifier: Apache-2.0
#include "pipeline/compose_support.h"

#include <catch2/catch.hpp>

#include "format/erofs.h"
#include "format/recipe.h"
#include "store/decorators.h"
#include "store/sources.h"

namespace dsec::composer::compose_test {

namespace fs = std::filesystem;
using format::FileType;
using format::InodeId;
using format::LayerTree;

Result<ComposeReport> try_compose(const store::Store& store, const std::string& source, const std::string& name,
                                  unsigned jobs) {
  ComposePlan plan;
  plan.name = TRY(format::parse_ref(format::RefKind::env, name));
  plan.layers.push_back({plan.name, source, "", ""});
  plan.base_dir = "/";
  ComposeOptions options;
  options.jobs = jobs;
  return compose(store, plan, options);
}

ComposeReport composed(const store::Store& store, const std::string& source, const std::string& name, unsigned jobs) {
  auto report = try_compose(store, source, name, jobs);
  if (!report) FAIL(report.error().message);
  return std::move(*report);
}

namespace {

class Reader {
 public:
  Reader(const store::Store& store, const Digest& layer)
      : layer_(layer),
        map_bytes_(*store.read_layer_map(layer)),
        map_(*format::LocationMapView::open(map_bytes_)),
        tree_(*format::read_layer(*store.read_layer_image(layer))),
        source_(store::verify(store::directory_source(store, io::make_sync_engine()))) {}

  void read_all(std::map<std::string, std::string>& all) { walk(LayerTree::root(), "", all); }

 private:
  void walk(InodeId id, const std::string& path, std::map<std::string, std::string>& all) {
    for (const auto& [name, child] : tree_.children(id)) {
      const format::Inode& inode = tree_.inode(child);
      if (inode.type == FileType::regular) all[path + "/" + name] = object(inode);
      if (inode.type == FileType::whiteout) all.erase(path + "/" + name);
      if (inode.type == FileType::directory) walk(child, path + "/" + name, all);
    }
  }

  std::string chunk(const Digest& digest) {
    const auto location = map_.find(digest);
    if (!location) FAIL("the map lacks " << digest.hex());
    const auto fetched = source_->fetch({digest, *location, layer_}, store::Deadline::max());
    if (!fetched) FAIL(fetched.error().message);
    return std::string(as_text(*fetched->bytes));
  }

  std::string object(const format::Inode& inode) {
    if (inode.size == 0) return {};
    std::string bytes = chunk(inode.object);
    if (format::looks_like_recipe(as_bytes(bytes))) {
      const auto recipe = format::read_recipe(as_bytes(bytes));
      if (!recipe) FAIL(recipe.error().message);
      bytes.clear();
      for (const auto& part : recipe->parts)
        bytes += part.is_hole() ? std::string(part.bytes, '\0') : chunk(part.chunk);
    }
    CHECK(bytes.size() == inode.size);
    return bytes;
  }

  Digest layer_;
  Bytes map_bytes_;
  format::LocationMapView map_;
  LayerTree tree_;
  std::unique_ptr<store::ChunkSource> source_;
};

}  // namespace

std::map<std::string, std::string> contents_of(const store::Store& store, const Digest& env) {
  std::map<std::string, std::string> all;
  const auto document = store.read_env(env);
  if (!document) FAIL(document.error().message);
  for (const Digest& layer : document->layers) Reader(store, layer).read_all(all);
  return all;
}

std::map<std::string, std::string> files_of(const store::Store& store) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(store.root())) {
    const std::string path = entry.path().lexically_relative(store.root()).native();
    if (entry.is_regular_file() && path.rfind("tmp/", 0) != 0 && path != "store.toml")
      all[path] = read_text(entry.path());
  }
  return all;
}

void make_sample(const fs::path& dir, std::uint64_t seed) {
  fs::create_directories(dir / "sub/deep");
  const auto text = [](const Bytes& bytes) { return std::string(as_text(bytes)); };
  for (std::uint64_t i = 0; i < 20; ++i)
    write_text(dir / fmt::format("sub/f{}", i), text(noise(seed + i, 100 + i * 3000)));
  write_text(dir / "big", text(noise(seed + 100, 3 << 20)));
  write_text(dir / "big-again", text(noise(seed + 100, 3 << 20)));
  write_text(dir / "shrinks", std::string(500000, static_cast<char>('a' + seed % 26)));
  write_text(dir / "empty", "");
  write_text(dir / "sub/deep/sparse", fmt::format("start of {}", seed));
  fs::resize_file(dir / "sub/deep/sparse", 5 << 20);
  write_text(dir / "sub/deep/recipe-like",
             std::string(format::kRecipeMagic.begin(), format::kRecipeMagic.end()) + fmt::format("no recipe {}", seed));
}

}  // namespace dsec::composer::compose_test
