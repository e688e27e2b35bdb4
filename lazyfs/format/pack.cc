// SPDX-License-Identifier: Apache-2.0
#include "format/pack.h"

#include <algorithm>

namespace dsec::format {

namespace {

constexpr std::array<std::uint8_t, 8> kHeaderMagic{0x89, 'D', 'S', 'P', 'C', 'K', '1', '\n'};
constexpr std::array<std::uint8_t, 8> kFooterMagic{0x89, 'D', 'S', 'P', 'C', 'K', 'E', '\n'};

bool has_magic(ByteView bytes, const std::array<std::uint8_t, 8>& magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

}  // namespace

Bytes pack_header() {
  Bytes bytes(kHeaderMagic.begin(), kHeaderMagic.end());
  bytes.resize(kPackHeaderBytes);
  return bytes;
}

Bytes pack_trailer(std::vector<PackEntry> entries, std::uint64_t data_end) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.digest < b.digest; });
  Bytes bytes;
  bytes.reserve(entries.size() * kPackEntryBytes + kPackFooterBytes);
  ByteWriter writer(bytes);
  for (const PackEntry& entry : entries) {
    writer.put_bytes(entry.digest.view());
    writer.put(entry.offset);
    writer.put(entry.stored_bytes);
    writer.put(entry.plain_bytes);
    writer.put(static_cast<std::uint32_t>(entry.codec));
  }
  const Digest index_digest = sha256(bytes);
  writer.put_bytes(kFooterMagic);
  writer.put(data_end);
  writer.put(static_cast<std::uint32_t>(entries.size()));
  writer.put_zeros(12);
  writer.put_bytes(index_digest.view());
  return bytes;
}

Result<PackFooter> read_pack_footer(ByteView footer, std::uint64_t file_bytes) {
  if (footer.size() != kPackFooterBytes || !has_magic(footer, kFooterMagic)) {
    return fail(ErrorCode::corrupt, "pack: no footer at the end");
  }
  ByteReader reader(footer.subspan(kFooterMagic.size()));
  PackFooter result;
  result.index_offset = reader.get<std::uint64_t>();
  result.count = reader.get<std::uint32_t>();
  const ByteView reserved = reader.get_bytes(12);
  result.index_digest = Digest::from_bytes(reader.get_bytes(Digest::kSize));
  const bool zeros = std::all_of(reserved.begin(), reserved.end(), [](std::uint8_t byte) { return byte == 0; });
  const bool fits = result.count <= kMaxPackEntries && result.index_offset >= kPackHeaderBytes &&
                    result.index_offset <= file_bytes &&
                    file_bytes - result.index_offset == result.index_bytes() + kPackFooterBytes;
  if (!zeros || !fits) return fail(ErrorCode::corrupt, "pack: the footer does not fit a file of {} bytes", file_bytes);
  return result;
}

Result<std::vector<PackEntry>> read_pack_index(const PackFooter& footer, ByteView index) {
  if (index.size() != footer.index_bytes() || sha256(index) != footer.index_digest) {
    return fail(ErrorCode::corrupt, "pack: the index is damaged");
  }
  std::vector<PackEntry> entries;
  entries.reserve(footer.count);
  ByteReader reader(index);
  for (std::uint32_t i = 0; i < footer.count; ++i) {
    PackEntry entry;
    entry.digest = Digest::from_bytes(reader.get_bytes(Digest::kSize));
    entry.offset = reader.get<std::uint64_t>();
    entry.stored_bytes = reader.get<std::uint32_t>();
    entry.plain_bytes = reader.get<std::uint32_t>();
    const auto codec = reader.get<std::uint32_t>();
    entry.codec = static_cast<Codec>(codec);
    const bool inside = entry.offset >= kPackHeaderBytes && entry.offset <= footer.index_offset &&
                        entry.stored_bytes <= footer.index_offset - entry.offset;
    const bool ordered = i == 0 || entries.back().digest < entry.digest;
    if (!inside || !ordered || codec > 1 || !sizes_are_possible(entry.codec, entry.stored_bytes, entry.plain_bytes)) {
      return fail(ErrorCode::corrupt, "pack: entry {} of the index is impossible", i);
    }
    entries.push_back(entry);
  }
  return entries;
}

Result<std::vector<PackEntry>> read_pack(ByteView pack) {
  const Bytes header = pack_header();
  if (pack.size() < kPackHeaderBytes + kPackFooterBytes || !std::equal(header.begin(), header.end(), pack.begin())) {
    return fail(ErrorCode::corrupt, "pack: no header, or too short");
  }
  const PackFooter footer = TRY(read_pack_footer(pack.last(kPackFooterBytes), pack.size()));
  return read_pack_index(footer, pack.subspan(footer.index_offset, footer.index_bytes()));
}

}  // namespace dsec::format
