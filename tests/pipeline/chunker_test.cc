// SPDX-License-Identifier: Apache-2.0
#include "composer/chunker.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "format/recipe.h"

namespace dsec::composer {
namespace {

using namespace format;

// The bytes of splitmix64 from `state`: the same in every language.
Bytes made_up(std::uint64_t state, std::size_t size) {
  Bytes bytes;
  while (bytes.size() < size) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    ByteWriter(bytes).put(z ^ (z >> 31));
  }
  bytes.resize(size);
  return bytes;
}

// What a chunker gave for one file: sizes of chunks, and of holes as negative numbers; the bytes put together again.
struct Cut {
  std::vector<std::int64_t> parts;
  Bytes bytes;
};

// Hands in a file in pieces of the sizes that `next` says; zeros in runs of at least `hole_from` bytes as holes.
template <typename Next>
Cut cut(ByteView content, Next next, std::size_t hole_from = ~std::size_t{0}) {
  Cut result;
  Chunker chunker({[&](ByteView chunk) {
                     result.parts.push_back(static_cast<std::int64_t>(chunk.size()));
                     result.bytes.insert(result.bytes.end(), chunk.begin(), chunk.end());
                   },
                   [&](std::uint64_t hole) {
                     result.parts.push_back(-static_cast<std::int64_t>(hole));
                     result.bytes.resize(result.bytes.size() + hole);
                   }});
  while (!content.empty()) {
    const auto zeros = static_cast<std::size_t>(
        std::find_if(content.begin(), content.end(), [](std::uint8_t byte) { return byte != 0; }) - content.begin());
    const std::size_t piece = std::min(content.size(), std::max<std::size_t>(1, next()));
    if (zeros >= hole_from) {
      chunker.hole(zeros);
      content = content.subspan(zeros);
    } else {
      chunker.data(content.first(piece));
      content = content.subspan(piece);
    }
  }
  chunker.end();
  return result;
}

Cut cut_whole(ByteView content) {
  return cut(content, [&] { return content.size(); });
}

TEST_CASE("the cut points of a known buffer are those of docs/format.md, section 6") {
  // Computed by a second implementation of that section.
  CHECK(cut_whole(made_up(7, 1 << 20)).parts == std::vector<std::int64_t>{72210, 78416, 84381, 37540, 158883, 68919,
                                                                          87518, 73205, 51773, 81277, 81595, 89776,
                                                                          66924, 16159});
}

TEST_CASE("chunks are within their limits and about 64 KiB on average") {
  const auto parts = cut_whole(made_up(3, 16 << 20)).parts;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    CHECK(parts[i] >= static_cast<std::int64_t>(kChunkMinBytes));
    CHECK(parts[i] <= static_cast<std::int64_t>(kChunkMaxBytes));
  }
  const auto average = (16 << 20) / static_cast<std::int64_t>(parts.size());
  CHECK(average > 48 << 10);
  CHECK(average < 96 << 10);
}

TEST_CASE("an insertion changes only the chunks around it") {
  const Bytes before = made_up(9, 4 << 20);
  Bytes after = before;
  after.insert(after.begin() + (1 << 20), {1, 2, 3});
  auto a = cut_whole(before).parts;
  auto b = cut_whole(after).parts;
  std::size_t same = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[a.size() - 1 - i] == b[b.size() - 1 - i]; ++i) ++same;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) ++same;
  CHECK(same + 4 >= a.size());
}

TEST_CASE("sizes around every limit") {
  for (const std::size_t limit :
       {std::size_t{1}, kHoleAlign, kChunkMinBytes, kChunkAvgBytes, kWholeFileBytes, kChunkMaxBytes}) {
    for (const std::size_t size : {limit - 1, limit, limit + 1}) {
      const Bytes content = made_up(size, size);
      const Cut result = cut_whole(content);
      INFO(size);
      CHECK(result.bytes == content);
      if (size == 0)
        CHECK(result.parts.empty());
      else if (size <= kWholeFileBytes)
        CHECK(result.parts.size() == 1);
      else
        CHECK(result.parts.size() > 1);
    }
  }
}

TEST_CASE("zeros become holes from 256 KiB on, at blocks of 4 KiB") {
  const auto zeros = [](std::size_t size) { return cut_whole(Bytes(size)).parts; };
  CHECK(zeros(4096) == std::vector<std::int64_t>{4096});
  CHECK(zeros(kHoleMinBytes) == std::vector<std::int64_t>{-static_cast<std::int64_t>(kHoleMinBytes)});
  CHECK(zeros(kHoleMinBytes + 5) == std::vector<std::int64_t>{-static_cast<std::int64_t>(kHoleMinBytes) - 5});
  CHECK(zeros(10 << 20) == std::vector<std::int64_t>{-(10 << 20)});
  CHECK(zeros(kHoleMinBytes - 1)[0] > 0);

  Bytes inside = made_up(1, 2 << 20);
  std::fill(inside.begin() + 500001, inside.begin() + 500001 + (300 << 10), 0);
  const Cut result = cut_whole(inside);
  CHECK(result.bytes == inside);
  const auto hole = std::find_if(result.parts.begin(), result.parts.end(), [](auto part) { return part < 0; });
  REQUIRE(hole != result.parts.end());
  const auto sum = [](std::int64_t a, std::int64_t b) { return a + std::abs(b); };
  CHECK(std::accumulate(result.parts.begin(), hole, std::int64_t{0}, sum) % static_cast<std::int64_t>(kHoleAlign) == 0);
  CHECK(-*hole % static_cast<std::int64_t>(kHoleAlign) == 0);
}

// Content with zeros of all lengths at all places.
Bytes patchy(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes content;
  for (int i = 0; i < 8; ++i) {
    const std::size_t size = 1 + random() % (400 << 10);
    if (random() % 2 == 0) {
      const Bytes data = made_up(random(), size);
      content.insert(content.end(), data.begin(), data.end());
    } else {
      content.resize(content.size() + size);
    }
  }
  return content;
}

TEST_CASE("the parts depend on the content alone, however it is handed in, holes included") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    const Bytes content = patchy(seed);
    const Cut whole = cut_whole(content);
    CHECK(whole.bytes == content);
    std::mt19937_64 random(seed);
    CHECK(cut(content, [] { return std::size_t{4096}; }).parts == whole.parts);
    CHECK(cut(content, [&] { return random() % 100000; }).parts == whole.parts);
    CHECK(cut(content, [&] { return random() % 7000; }).parts == whole.parts);
    for (const std::size_t hole_from : {std::size_t{1}, std::size_t{4096}, std::size_t{100000}, kHoleMinBytes}) {
      CHECK(cut(
                content, [&] { return random() % 100000; }, hole_from)
                .parts == whole.parts);
    }
  }
}

TEST_CASE("a chunker is ready for the next file after end()") {
  std::vector<std::size_t> sizes;
  std::uint64_t holes = 0;
  Chunker chunker({[&](ByteView chunk) { sizes.push_back(chunk.size()); }, [&](std::uint64_t hole) { holes += hole; }});
  for (const std::size_t size : {std::size_t{100}, std::size_t{0}, std::size_t{5000}}) {
    const Bytes content = made_up(size, size);
    chunker.data(content);
    CHECK(chunker.size() == size);
    chunker.end();
  }
  chunker.hole(std::uint64_t{1} << 50);
  chunker.end();
  CHECK(sizes == std::vector<std::size_t>{100, 5000});
  CHECK(holes == std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace dsec::composer
