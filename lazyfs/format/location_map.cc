// SPDX-License-Identifier: Apache-2.0
#include "format/location_map.h"

#include <algorithm>
#include <array>

namespace dsec::format {

namespace {

constexpr std::array<std::uint8_t, 8> kMagic{0x89, 'D', 'S', 'M', 'A', 'P', '1', '\n'};
constexpr std::size_t kHeaderBytes = 24;  // magic, entries, packs, reserved
constexpr std::uint32_t kCodecBit = 0x80000000;

}  // namespace

Bytes write_location_map(std::vector<MapEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.digest < b.digest; });
  entries.erase(
      std::unique(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.digest == b.digest; }),
      entries.end());
  std::vector<Digest> packs;
  for (const MapEntry& entry : entries) packs.push_back(entry.location.pack);
  std::sort(packs.begin(), packs.end());
  packs.erase(std::unique(packs.begin(), packs.end()), packs.end());

  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(kMagic);
  writer.put(static_cast<std::uint32_t>(entries.size()));
  writer.put(static_cast<std::uint32_t>(packs.size()));
  writer.put_zeros(8);
  for (const Digest& pack : packs) writer.put_bytes(pack.view());
  for (const auto& [digest, location] : entries) {
    const auto pack = std::lower_bound(packs.begin(), packs.end(), location.pack) - packs.begin();
    writer.put_bytes(digest.view());
    writer.put(location.offset);
    writer.put(location.stored_bytes);
    writer.put(location.plain_bytes);
    writer.put(static_cast<std::uint32_t>(pack) | (location.codec == Codec::lz4 ? kCodecBit : 0));
  }
  const Digest digest = sha256(bytes);
  writer.put_bytes(digest.view());
  return bytes;
}

namespace {

// Whether records that begin with a digest are in strict order of it.
bool is_sorted(ByteView records, std::size_t record_bytes) {
  for (std::size_t at = record_bytes; at < records.size(); at += record_bytes) {
    if (std::memcmp(records.data() + at - record_bytes, records.data() + at, Digest::kSize) >= 0) return false;
  }
  return true;
}

bool is_possible(const std::uint8_t* entry, std::size_t pack_count) {
  const auto offset = load_le<std::uint64_t>(entry + 32);
  const auto stored = load_le<std::uint32_t>(entry + 40);
  const auto plain = load_le<std::uint32_t>(entry + 44);
  const auto packed = load_le<std::uint32_t>(entry + 48);
  const Codec codec = (packed & kCodecBit) != 0 ? Codec::lz4 : Codec::plain;
  return (packed & ~kCodecBit) < pack_count && offset <= std::uint64_t{INT64_MAX} - stored &&
         sizes_are_possible(codec, stored, plain);
}

}  // namespace

Result<LocationMapView> LocationMapView::open(ByteView bytes) {
  const LocationMapView view = TRY(open_checked(bytes));
  if (sha256(bytes.first(bytes.size() - Digest::kSize)) != Digest::from_bytes(bytes.last(Digest::kSize))) {
    return fail(ErrorCode::corrupt, "location map: its digest does not fit");
  }
  TRY(view.check_entries());
  return view;
}

Result<LocationMapView> LocationMapView::open_checked(ByteView bytes) {
  if (bytes.size() < kHeaderBytes + Digest::kSize || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return fail(ErrorCode::corrupt, "location map: no header, or too short");
  }
  ByteReader reader(bytes.first(bytes.size() - Digest::kSize).subspan(kMagic.size()));
  LocationMapView view;
  view.count_ = reader.get<std::uint32_t>();
  view.pack_count_ = reader.get<std::uint32_t>();
  const bool reserved_ok = reader.get<std::uint64_t>() == 0;
  view.packs_ = reader.get_bytes(view.pack_count_ * Digest::kSize);
  view.entries_ = reader.get_bytes(view.count_ * kEntryBytes);
  if (!reader.ok() || reader.remaining() != 0 || !reserved_ok) {
    return fail(ErrorCode::corrupt, "location map: {} bytes do not hold its entries", bytes.size());
  }
  return view;
}

Result<void> LocationMapView::check_entries() const {
  if (!is_sorted(packs_, Digest::kSize)) return fail(ErrorCode::corrupt, "location map: packs out of order");
  if (!is_sorted(entries_, kEntryBytes)) return fail(ErrorCode::corrupt, "location map: entries out of order");
  for (std::size_t i = 0; i < count_; ++i) {
    if (!is_possible(entries_.data() + i * kEntryBytes, pack_count_)) {
      return fail(ErrorCode::corrupt, "location map: entry {} is impossible", i);
    }
  }
  return {};
}

Digest LocationMapView::pack(std::size_t index) const {
  return Digest::from_bytes(packs_.subspan(index * Digest::kSize, Digest::kSize));
}

MapEntry LocationMapView::entry(std::size_t index) const {
  const std::uint8_t* const p = entries_.data() + index * kEntryBytes;
  const auto packed = load_le<std::uint32_t>(p + 48);
  MapEntry entry;
  entry.digest = Digest::from_bytes({p, Digest::kSize});
  entry.location.offset = load_le<std::uint64_t>(p + 32);
  entry.location.stored_bytes = load_le<std::uint32_t>(p + 40);
  entry.location.plain_bytes = load_le<std::uint32_t>(p + 44);
  entry.location.codec = (packed & kCodecBit) != 0 ? Codec::lz4 : Codec::plain;
  entry.location.pack = pack(packed & ~kCodecBit);
  return entry;
}

Result<ChunkLocation> LocationMapView::find(const Digest& digest) const {
  std::size_t low = 0;
  std::size_t high = count_;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const int order = std::memcmp(entries_.data() + middle * kEntryBytes, digest.bytes.data(), Digest::kSize);
    if (order == 0) return entry(middle).location;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return fail(ErrorCode::not_found, "no location of {}", digest.hex());
}

}  // namespace dsec::format
