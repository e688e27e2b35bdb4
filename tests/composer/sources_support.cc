// SPDX-License-Identifier: Apache-2.0
#include "composer/sources_support.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "base/process.h"
#include "base/text.h"
#include "format/dump.h"

namespace dsec::composer::test {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlock = 4096;

}  // namespace

Result<void> MemorySink::begin() {
  if (open_) return fail(ErrorCode::internal, "two files at once");
  open_ = true;
  sha_ = Sha256();
  files_.emplace_back();
  return {};
}

Result<void> MemorySink::data(ByteView bytes) {
  if (!open_ || bytes.empty()) return fail(ErrorCode::internal, "data outside of a file, or none");
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), kBlock - block_.size());
    block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
    files_.back().size += part;
    bytes = bytes.subspan(part);
    if (block_.size() == kBlock) flush_block();
  }
  return {};
}

void MemorySink::flush_block() {
  const bool zeros = std::all_of(block_.begin(), block_.end(), [](std::uint8_t byte) { return byte == 0; });
  if (!zeros) {
    block_.resize(kBlock);
    sha_.update(as_bytes(std::to_string(files_.back().size / kBlock * kBlock)));
    sha_.update(block_);
  }
  block_.clear();
}

Result<void> MemorySink::hole(std::uint64_t length) {
  if (!open_ || length == 0) return fail(ErrorCode::internal, "a hole outside of a file, or none");
  File& file = files_.back();
  file.holes.emplace_back(file.size, length);
  const std::uint64_t head = std::min<std::uint64_t>(length, (kBlock - block_.size()) % kBlock);
  if (head > 0) TRY(data(Bytes(head)));
  length -= head;
  const std::uint64_t whole = length / kBlock * kBlock;
  files_.back().size += whole;
  if (length > whole) TRY(data(Bytes(length - whole)));
  return {};
}

Result<ContentSink::Ticket> MemorySink::end() {
  if (!open_) return fail(ErrorCode::internal, "end() without begin()");
  open_ = false;
  const std::uint64_t size = files_.back().size;
  if (!block_.empty()) {
    files_.back().size = (size + kBlock - 1) / kBlock * kBlock;  // as if the block were whole
    flush_block();
  }
  files_.back().size = size;
  sha_.update(as_bytes("size " + std::to_string(size)));
  files_.back().digest = sha_.finish();
  return static_cast<Ticket>(files_.size() - 1);
}

Digest MemorySink::digest_of(std::string_view content) {
  MemorySink sink;
  REQUIRE(sink.begin());
  if (!content.empty()) REQUIRE(sink.data(as_bytes(content)));
  REQUIRE(sink.end());
  return sink.files()[0].digest;
}

Result<std::vector<Digest>> MemorySink::finish() {
  std::vector<Digest> digests;
  for (const File& file : files_) digests.push_back(file.digest);
  return digests;
}

std::string shell(const fs::path& dir, const std::string& script) {
  constexpr std::size_t kLimit = std::size_t{64} << 20;
  const auto output = run_program({"sh", "-ec", "cd \"$0\"\n" + script, dir.string()}, kLimit);
  INFO(script);
  if (!output) FAIL(output.error().message);
  return *output;
}

bool have_program(const std::string& name) { return run_program({"sh", "-c", "command -v \"$0\"", name}).has_value(); }

std::string archive_case(const std::string& name) {
  static const TempDir dir;
  static const std::string made = shell(dir.path(), "python3 " DSEC_TEST_DIR "/archives.py .");
  return dir / name;
}

void write_file(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

format::LayerTree tree_of(std::string_view lines) {
  auto tree = format::parse_dump("/ directory\n" + std::string(lines));
  if (!tree) FAIL(tree.error().message);
  return std::move(*tree);
}

MergedTree merged_of(std::string_view lines) {
  MergedTree merged;
  REQUIRE(merged.apply(tree_of(lines)));
  return merged;
}

std::string brief(const format::LayerTree& tree, const std::vector<std::string>& hidden) {
  std::string out;
  const std::string dump = format::dump_layer(tree);
  for (const std::string_view line : split(dump, '\n')) {
    if (line.empty() || line.starts_with("/ ")) continue;
    std::string kept;
    for (const std::string_view word : split(line, ' ')) {
      const std::string_view key = word.substr(0, word.find('='));
      if (std::find(hidden.begin(), hidden.end(), key) != hidden.end()) continue;
      kept.append(kept.empty() ? "" : " ").append(word);
    }
    out += kept + "\n";
  }
  return out;
}

std::string outline(const format::LayerTree& tree) {
  return brief(tree, {"mode", "uid", "gid", "mtime", "size", "object"});
}

Result<ReadSource> read_source(std::string_view spec, const fs::path& base_dir) {
  ReadSource all;
  const auto source = TRY(open_source(spec, base_dir));
  for (std::size_t i = 0; i < source->layer_count(); ++i) {
    const auto stream = TRY(source->layer(i));
    all.last_sink = MemorySink();
    format::LayerTree& layer = all.layers.emplace_back();
    LayerBuilder builder = TRY(LayerBuilder::create(layer, i == 0 ? nullptr : &all.merged));
    TRY(stream->apply(builder, all.last_sink, {}));
    TRY(builder.resolve(TRY(all.last_sink.finish())));
    TRY(all.merged.apply(layer));
  }
  return all;
}

}  // namespace dsec::composer::test
