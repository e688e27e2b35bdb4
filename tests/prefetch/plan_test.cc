// SPDX-License-Identifier: Apache-2.0
#include "prefetch/plan.h"

#include <catch2/catch.hpp>

#include "format/location_map.h"
#include "prefetch/recorder.h"
#include "store/store_support.h"

namespace dsec::prefetch {
namespace {

using namespace dsec::test;
using format::Codec;

const Digest kPack = digest_of("pack");
const Digest kOther = digest_of("other pack");

struct Fixture {
  TempDir dir;
  store::Store store = new_store(dir / "store");
  store::LayerCache cache = *store::LayerCache::open(store, dir / "cache");
  std::vector<std::shared_ptr<const store::Layer>> layers;

  // A layer whose map has chunks of 1000 bytes named by words at these offsets.
  void add(std::string_view target, const std::vector<std::tuple<std::string, Digest, std::uint64_t>>& chunks) {
    std::vector<format::MapEntry> entries;
    for (const auto& [word, pack, offset] : chunks) {
      entries.push_back({digest_of(word), {pack, offset, 1000, 1000, Codec::plain}});
    }
    format::LayerTree tree;
    format::Inode link;
    link.type = format::FileType::symlink;
    link.target = target;
    REQUIRE(tree.add(0, "l", link));
    const Digest layer = *store.put_layer(*format::write_layer(tree), format::write_location_map(entries));
    layers.push_back(*cache.load(layer));
  }
};

PackRange range(const Digest& pack, std::uint64_t offset, std::uint64_t length) { return {pack, offset, length}; }

TEST_CASE("a trace is read in its order, neighbours at once") {
  Fixture f;
  f.add("1", {{"a", kPack, 16}, {"b", kPack, 1016}, {"c", kPack, 500000}});
  f.add("2", {{"d", kOther, 16}});
  PlanOptions options;
  options.batch_bytes = 2000;
  const format::Trace trace{digest_of("c"), digest_of("d"), digest_of("nowhere"), digest_of("b"), digest_of("a")};
  const Plan plan = plan_trace(trace, f.layers, options);
  REQUIRE(plan.ranges.size() == 3);
  CHECK(plan.ranges[2] == range(kPack, 16, 2000));  // the second batch, as it lies in the pack
  CHECK(plan.bytes == 4000);
  CHECK(plan_trace({}, f.layers, options).ranges.empty());
  CHECK(plan_trace(trace, {}, options).ranges.empty());
}

TEST_CASE("a read has a bound, and so has the gap that is read along") {
  Fixture f;
  f.add("1", {{"a", kPack, 16}, {"b", kPack, 1116}, {"c", kPack, 2316}, {"d", kPack, 3316}});
  PlanOptions options;
  options.max_gap_bytes = 100;
  options.max_read_bytes = 10000;
  const Plan plan = plan_all(f.layers, options);
  CHECK(plan.ranges == std::vector{range(kPack, 16, 2100), range(kPack, 2316, 2000)});
  CHECK(plan.bytes == 4100);
  options.max_read_bytes = 2000;
  CHECK(plan_all(f.layers, options).ranges ==
        std::vector{range(kPack, 16, 1000), range(kPack, 1116, 1000), range(kPack, 2316, 2000)});
}

TEST_CASE("what two layers share is read once") {
  Fixture f;
  f.add("1", {{"a", kPack, 16}, {"b", kPack, 900000}});
  f.add("2", {{"a", kPack, 16}, {"c", kOther, 16}});
  CHECK(plan_all(f.layers).bytes == 3000);
  const format::Trace twice{digest_of("a"), digest_of("c")};
  CHECK(plan_trace(twice, f.layers).bytes == 2000);
}

TEST_CASE("a recorder keeps first accesses in order") {
  Recorder recorder;
  for (const char* word : {"a", "b", "a", "c", "b"}) recorder.used(digest_of(word));
  CHECK(recorder.trace() == format::Trace{digest_of("a"), digest_of("b"), digest_of("c")});
}

}  // namespace
}  // namespace dsec::prefetch
