// SPDX-License-Identifier: Apache-2.0
#include "composer/pipeline.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "format/recipe.h"
#include "pipeline/compose_support.h"

namespace dsec::composer {
namespace {

using namespace compose_test;
using dsec::test::TempDir;

// A run of the pipeline over files given as bytes.
struct Run {
  std::vector<Digest> objects;
  PipelineStats stats;
  std::vector<std::vector<format::MapEntry>> places;  // of each object
};

Run run(const store::Store& store, const std::vector<Bytes>& files, unsigned workers) {
  const auto index = ChunkIndex::load(store);
  REQUIRE(index);
  const auto pipeline = Pipeline::create(store, *index, {workers, format::Effort::fast});
  const auto sink = pipeline->sink();
  for (const Bytes& file : files) {
    REQUIRE(sink->begin());
    ByteView rest = file;
    while (!rest.empty()) {
      const std::size_t piece = std::min<std::size_t>(rest.size(), 100000);
      REQUIRE(sink->data(rest.first(piece)));
      rest = rest.subspan(piece);
    }
    REQUIRE(sink->end());
  }
  Run result;
  const auto objects = sink->finish();
  REQUIRE(objects);
  result.objects = *objects;
  REQUIRE(pipeline->finish());
  for (const Digest& object : result.objects) {
    result.places.emplace_back();
    if (!object.is_zero()) REQUIRE(pipeline->locate(object, result.places.back()));
  }
  result.stats = pipeline->stats();
  return result;
}

std::vector<Bytes> many_files() {
  std::vector<Bytes> files{{}, dsec::test::bytes_of("x"), Bytes(700000, 0), Bytes(700000, 'z'), noise(1, 5 << 20)};
  for (std::uint64_t i = 0; i < 200; ++i) files.push_back(noise(i % 50, 1 + i * 997));
  files.push_back(files[4]);
  return files;
}

TEST_CASE("what is written does not depend on the number of workers") {
  const TempDir dir;
  std::map<std::string, std::string> first;
  for (const unsigned workers : {1u, 2u, 4u, 7u}) {
    const store::Store store = new_store(dir / std::to_string(workers));
    run(store, many_files(), workers);
    if (first.empty()) first = files_of(store);
    INFO(workers << " workers");
    CHECK(files_of(store) == first);
    CHECK(count_files(store.tmp_dir()) == 0);
  }
  CHECK(first.size() == 1);
}

TEST_CASE("a file of one chunk is named by it, of several by its recipe, an empty one by nothing") {
  const TempDir dir;
  const Run result =
      run(new_store(dir / "s"), {{}, dsec::test::bytes_of("hello"), noise(1, 1 << 20), Bytes(1 << 20, 0)}, 2);
  CHECK(result.objects[0].is_zero());
  CHECK(result.objects[1] == digest_of("hello"));
  CHECK(result.places[1].size() == 1);
  CHECK(result.places[2].size() > 3);
  CHECK(result.places[3].size() == 1);  // the recipe of one hole
}

TEST_CASE("content that begins like a recipe gets one, so that nobody takes it for its own") {
  const TempDir dir;
  Bytes content(format::kRecipeMagic.begin(), format::kRecipeMagic.end());
  content.push_back('x');
  const Run result = run(new_store(dir / "s"), {content}, 1);
  CHECK(result.objects[0] != sha256(content));
  CHECK(result.places[0].size() == 2);
}

TEST_CASE("equal chunks are stored once, in a run and over runs") {
  const TempDir dir;
  const store::Store store = new_store(dir / "s");
  const Run first = run(store, {noise(1, 1 << 20), noise(1, 1 << 20), noise(2, 100)}, 4);
  CHECK(first.stats.packs == 1);
  CHECK(first.stats.new_plain_bytes < (1 << 20) + 2000);
  CHECK(first.stats.content_bytes == (2 << 20) + 100);
  CHECK(first.objects[0] == first.objects[1]);
  const Run again = run(store, {noise(2, 100), noise(1, 1 << 20)}, 4);
  CHECK(again.stats.new_chunks == 0);
  CHECK(again.stats.packs == 0);
  CHECK(again.objects[1] == first.objects[0]);
  CHECK(again.places[1] == first.places[0]);
  CHECK(store.list_packs()->size() == 1);
}

TEST_CASE("a run without new content writes nothing") {
  const TempDir dir;
  const store::Store store = new_store(dir / "s");
  CHECK(run(store, {{}, {}}, 3).stats.pack_bytes == 0);
  CHECK(run(store, {}, 1).objects.empty());
  CHECK(store.list_packs()->empty());
}

TEST_CASE("an object that did not come through is not found") {
  const TempDir dir;
  const store::Store store = new_store(dir / "s");
  const auto index = *ChunkIndex::load(store);
  const auto pipeline = Pipeline::create(store, index, {1, format::Effort::fast});
  REQUIRE(pipeline->finish());
  std::vector<format::MapEntry> entries;
  CHECK(pipeline->locate(digest_of("x"), entries).error().code == ErrorCode::not_found);
}

TEST_CASE("a store that cannot be written is an error for the sink, not a hang, and leaves nothing") {
  const TempDir dir;
  const store::Store store = new_store(dir / "s");
  const auto index = *ChunkIndex::load(store);
  std::filesystem::remove_all(store.tmp_dir());
  const auto pipeline = Pipeline::create(store, index, {2, format::Effort::fast});
  const auto sink = pipeline->sink();
  Result<void> outcome;
  for (std::uint64_t i = 0; i < 100 && outcome; ++i) {
    outcome = sink->begin();
    if (outcome) outcome = sink->data(noise(i, 300000));
    if (outcome && !sink->end()) break;
  }
  const auto objects = sink->finish();
  REQUIRE_FALSE(objects);
  CHECK_FALSE(objects.error().message.empty());
  CHECK_FALSE(pipeline->finish());
  CHECK(store.list_packs()->empty());
}

TEST_CASE("a pipeline that is dropped half-way leaves no pack and no litter") {
  const TempDir dir;
  const store::Store store = new_store(dir / "s");
  const auto index = *ChunkIndex::load(store);
  {
    const auto pipeline = Pipeline::create(store, index, {2, format::Effort::fast});
    const auto sink = pipeline->sink();
    for (std::uint64_t i = 0; i < 20; ++i) {
      REQUIRE(sink->begin());
      REQUIRE(sink->data(noise(i, 300000)));
      REQUIRE(sink->end());
    }
  }
  CHECK(store.list_packs()->empty());
  CHECK(count_files(store.tmp_dir()) == 0);
}

TEST_CASE("a pack with a damaged index is left out of the index of the store, with its chunks stored again") {
  const TempDir dir;
  const store::Store store = new_store(dir / "s");
  const Run first = run(store, {noise(1, 1000)}, 1);
  const auto pack = store.pack_path(first.places[0][0].location.pack);
  damage(pack, std::filesystem::file_size(pack) - 20, "damaged");
  CHECK(ChunkIndex::load(store)->size() == 0);
  // The same pack again: it takes the place of the damaged one.
  CHECK(run(store, {noise(1, 1000)}, 1).stats.new_chunks == 1);
  CHECK(ChunkIndex::load(store)->size() == 1);
}

}  // namespace
}  // namespace dsec::composer
