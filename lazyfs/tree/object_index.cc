// SPDX-License-Identifier: Apache-2.0
#include "tree/object_index.h"

#include <algorithm>

namespace dsec::tree {

namespace {

constexpr int kMaxGuesses = 4;
constexpr std::int64_t kNear = 4;     // entries: closer is walked
constexpr std::size_t kMaxWalk = 64;  // entries: farther is halved
constexpr std::uint64_t kMaxKey = NodeId::kObjectBit - 1;

std::uint64_t load_be(const std::uint8_t* bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | bytes[i];
  return value;
}

std::uint64_t key_of(const Digest& digest) { return load_be(digest.bytes.data()) >> 2; }

std::uint64_t key_at(const format::LocationMapView& map, std::size_t index) {
  return load_be(map.digest_bytes(index).data()) >> 2;
}

// The same between two indices, by halving.
std::size_t halve(const format::LocationMapView& map, std::uint64_t key, std::size_t low, std::size_t high) {
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (key_at(map, middle) < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// How many entries further a key should be, if keys are spread evenly.
std::int64_t distance(std::uint64_t from, std::uint64_t to, std::size_t count) {
  const auto share = [count](std::uint64_t keys) {
    return static_cast<std::int64_t>(static_cast<unsigned __int128>(keys) * count >> NodeId::kObjectBits);
  };
  return to >= from ? share(to - from) : -share(from - to);
}

// Index of the first entry whose key is not below `key`; the number of entries when there is none. Guesses, then walks:
// the last steps are in memory that the guess has brought in.
std::size_t lower_bound(const format::LocationMapView& map, std::uint64_t key) {
  if (map.size() == 0) return 0;
  const auto last = static_cast<std::int64_t>(map.size() - 1);
  std::int64_t guess = std::min(distance(0, key, map.size()), last);
  for (int i = 0; i < kMaxGuesses; ++i) {
    const std::int64_t error = distance(key_at(map, static_cast<std::size_t>(guess)), key, map.size());
    guess = std::clamp(guess + error, std::int64_t{0}, last);
    if (error > -kNear && error < kNear) break;
  }
  auto at = static_cast<std::size_t>(guess);
  const std::size_t lowest = at > kMaxWalk ? at - kMaxWalk : 0;
  const std::size_t highest = std::min(at + kMaxWalk, map.size());
  if (key_at(map, at) < key) {
    while (at < highest && key_at(map, at) < key) ++at;
    return at < highest ? at : halve(map, key, highest, map.size());
  }
  while (at > lowest && key_at(map, at - 1) >= key) --at;
  return at > lowest ? at : halve(map, key, 0, lowest);
}

}  // namespace

NodeId object_node(const Digest& object) { return NodeId(NodeId::kObjectBit | key_of(object)); }

std::uint64_t object_generation(const Digest& object) { return load_be(object.bytes.data() + 8); }

ObjectMatch find_object(const format::LocationMapView& map, NodeId object) {
  const std::uint64_t key = object.value() & kMaxKey;
  const std::size_t at = lower_bound(map, key);
  ObjectMatch match;
  if (at >= map.size()) return match;
  if (key_at(map, at) != key) return match;
  match.digest = Digest::from_bytes(map.digest_bytes(at));
  match.ambiguous = at + 1 < map.size() && key_at(map, at + 1) == key;
  return match;
}

}  // namespace dsec::tree
