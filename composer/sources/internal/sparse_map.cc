// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/sparse_map.h"

#include <charconv>
#include <string>

#include "composer/sources/internal/entry_path.h"

namespace dsec::composer {

namespace {

Result<void> push(std::vector<SparseSegment>& segments, SparseSegment segment) {
  if (segments.size() == kMaxSparseSegments) {
    return fail(ErrorCode::invalid, "a sparse map of more than {} segments", kMaxSparseSegments);
  }
  segments.push_back(segment);
  return {};
}

Result<void> read_block(StreamReader& reader, TarBlock& block) {
  if (TRY(reader.read_full(block)) == block.size()) return {};
  return fail(ErrorCode::corrupt, "the archive ends in a sparse map");
}

// `count` pairs of 12-byte numbers; a blank one ends them early.
Result<void> push_pairs(const TarBlock& block, std::size_t offset, std::size_t count,
                        std::vector<SparseSegment>& segments) {
  for (std::size_t i = 0; i < count; ++i, offset += 24) {
    if (block[offset] == 0) return {};
    const std::uint64_t start = TRY(parse_tar_number(tar_field(block, offset, 12), "sparse offset"));
    const std::uint64_t length = TRY(parse_tar_number(tar_field(block, offset + 12, 12), "sparse length"));
    TRY(push(segments, {start, length}));
  }
  return {};
}

// The decimal lines of a pax 1.0 map, block by block.
class LineReader {
 public:
  LineReader(StreamReader& reader, std::uint64_t available) : reader_(reader), available_(available) {}

  Result<std::uint64_t> number() {
    constexpr std::size_t kMaxDigits = 20;
    std::string digits;
    for (;;) {
      if (at_ == block_.size()) TRY(next_block());
      const char c = static_cast<char>(block_[at_++]);
      if (c == '\n') return parse_decimal(digits, "a number of the sparse map");
      digits.push_back(c);
      if (digits.size() > kMaxDigits) return fail(ErrorCode::invalid, "a sparse map that is no list of numbers");
    }
  }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  Result<void> next_block() {
    if (available_ - taken_ < kTarBlock) return fail(ErrorCode::invalid, "a sparse map longer than its file");
    TRY(read_block(reader_, block_));
    taken_ += kTarBlock;
    at_ = 0;
    return {};
  }

  StreamReader& reader_;
  std::uint64_t available_;
  std::uint64_t taken_ = 0;
  TarBlock block_{};
  std::size_t at_ = kTarBlock;
};

}  // namespace

Result<std::uint64_t> parse_decimal(std::string_view text, std::string_view what) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    return fail(ErrorCode::invalid, "{} is \"{}\", not a number that fits", what, shown(text));
  }
  return value;
}

Result<SparseMap> read_old_gnu_map(const TarBlock& header, StreamReader& reader) {
  constexpr std::size_t kHeaderPairs = 386;
  constexpr std::size_t kBlockPairs = 21;
  SparseMap map;
  map.real_size = TRY(parse_tar_number(tar_field(header, 483, 12), "real size"));
  TRY(push_pairs(header, kHeaderPairs, 4, map.segments));
  bool more = header[482] != 0;
  while (more) {
    TarBlock block;
    TRY(read_block(reader, block));
    const std::size_t before = map.segments.size();
    TRY(push_pairs(block, 0, kBlockPairs, map.segments));
    more = block[504] != 0;
    if (more && map.segments.size() == before) return fail(ErrorCode::invalid, "an empty block in a sparse map");
  }
  return map;
}

Result<LeadingMap> read_leading_map(StreamReader& reader, std::uint64_t available) {
  LineReader lines(reader, available);
  LeadingMap map;
  const std::uint64_t count = TRY(lines.number());
  if (count > kMaxSparseSegments) return fail(ErrorCode::invalid, "a sparse map of {} segments", count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t offset = TRY(lines.number());
    TRY(push(map.segments, {offset, TRY(lines.number())}));
  }
  map.bytes = lines.taken();
  return map;
}

Result<std::vector<SparseSegment>> parse_map_record(std::string_view text) {
  std::vector<SparseSegment> segments;
  const auto next = [&text]() {
    const std::size_t comma = std::min(text.find(','), text.size());
    const Result<std::uint64_t> value = parse_decimal(text.substr(0, comma), "a number of GNU.sparse.map");
    text.remove_prefix(std::min(comma + 1, text.size()));
    return value;
  };
  while (!text.empty()) {
    const std::uint64_t offset = TRY(next());
    TRY(push(segments, {offset, TRY(next())}));
  }
  return segments;
}

Result<void> check_sparse_map(const SparseMap& map, std::uint64_t stored_bytes) {
  std::uint64_t end = 0;
  std::uint64_t total = 0;
  for (const SparseSegment& segment : map.segments) {
    if (segment.offset < end || segment.offset > map.real_size || segment.length > map.real_size - segment.offset) {
      return fail(ErrorCode::invalid, "a sparse map whose segment at {} with {} bytes overlaps or lies outside",
                  segment.offset, segment.length);
    }
    end = segment.offset + segment.length;
    total += segment.length;
  }
  if (total == stored_bytes) return {};
  return fail(ErrorCode::invalid, "a sparse map of {} bytes with {} bytes of data", total, stored_bytes);
}

}  // namespace dsec::composer
